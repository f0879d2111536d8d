// Draws the charts of the page with dygraphs.
"use strict";
(() => {
  let data = JSON.parse(document.getElementById("data").textContent);
  const element = (id) => document.getElementById(id);
  // Every color has a contrast of at least 3:1 against the light and the dark background.
  const colors = ["#0b7fc4", "#d1580a", "#15945f", "#b35fa3", "#8a7a00", "#6f6fe0", "#c9475d", "#5b8a8f"];
  const dashes = [null, [8, 3], [2, 3], [10, 3, 2, 3]];  // where there are more runs than colors
  const colorOf = (number) => colors[number % colors.length];
  const dashOf = (number) => dashes[Math.floor(number / colors.length) % dashes.length];

  const axes = {
    step: { label: "steps", unit: () => [1, "steps"] },
    tokens: { label: "tokens", unit: () => [1, "tokens"] },
    seconds: {
      label: "training time",
      unit: (most) => most > 7200 ? [3600, "hours of training"] : most > 120 ? [60, "minutes of training"] : [1, "seconds of training"],
    },
  };

  const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });
  function written(value) {
    const size = Math.abs(value);
    if (size >= 10000) return compact.format(value);
    if (size !== 0 && size < 0.001) return value.toExponential(2).replace(/\.?0+e/, "e");
    return String(Number(value.toPrecision(5)));
  }
  function escaped(text) {
    const span = document.createElement("span");
    span.textContent = text;
    return span.innerHTML;
  }
  const colorNamed = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // The buckets of a column that contain values, each as [index, min, mean, max].
  function* bucketsOf(column) {
    for (let i = 0; i < column.mean.length; ++i) {
      const mean = column.mean[i];
      const place = column.at ? column.at[i] : i;
      if (mean === null) yield [place, NaN, NaN, NaN];
      else yield [place, column.least ? column.least[i] : mean, mean, column.most ? column.most[i] : mean];
    }
  }

  // The curves of a chart: one for each visible run that has its columns and the axis.
  function curvesOf(chart, axis, shown) {
    const curves = [];
    data.runs.forEach((run, number) => {
      if (!shown[number] || !run[axis] || (chart.run !== null && chart.run !== number)) return;
      chart.columns.forEach((name, place) => {
        if (!Object.hasOwn(run.columns, name)) return; // a column may be called "constructor"
        const column = run.columns[name];
        const label = chart.stacked ? chart.names[place] : place === 0 ? run.name : run.name + ", " + chart.names[place];
        curves.push({
          run, column, label,
          color: colorOf(chart.stacked ? place : number),
          dash: chart.stacked ? null : place === 0 ? dashOf(number) : [4, 3],
        });
      });
    });
    return curves;
  }

  // Rows for dygraphs: x, then the value or [min, mean, max] of each curve. Null if a curve has no point at
  // that x, NaN for a gap. The axis starts at 0.
  function rowsOf(chart, curves, axis, scale, ranged) {
    const rows = new Map([[0, [0, ...curves.map(() => null)]]]);
    curves.forEach((curve, number) => {
      for (const [place, ...values] of bucketsOf(curve.column)) {
        const x = curve.run[axis][place] / scale;
        if (!rows.has(x)) rows.set(x, [x, ...curves.map(() => null)]);
        const scaled = values.map((value) => value * chart.factor);
        rows.get(x)[number + 1] = ranged ? scaled : scaled[1];
      }
    });
    return [...rows.values()].sort((a, b) => a[0] - b[0]);
  }

  const graphs = new Map(); // by the element that they are in: { graph, kind, last }

  // The last finite value of each curve.
  function lastValues(rows, curves, isRanged) {
    return curves.map((_, number) => {
      const values = rows.map((row) => row[number + 1]).map((found) => isRanged && found ? found[1] : found);
      return values.findLast((value) => value !== null && !Number.isNaN(value));
    });
  }

  // Legend: the values at the pointer, or the last ones.
  function legendOf(place, { x, xHTML, series }) {
    const last = graphs.get(place)?.last ?? [];
    const rows = series.map(({ color, dashHTML, labelHTML, yHTML }, number) => {
      const value = x !== undefined ? yHTML : last[number] !== undefined ? escaped(written(last[number])) : undefined;
      const said = value === undefined ? "" : `: <b>${value}</b>`;
      return `<span class="entry"><span style="color: ${color}">${dashHTML}</span> ${labelHTML}${said}</span>`;
    });
    return (x === undefined ? "" : xHTML + ": ") + rows.join(" ");
  }

  // Curves with at most this many points also show the points.
  const fewPoints = 40;
  const isSparse = (curve) => curve.column.mean.length <= fewPoints;
  let following = false;

  // All charts show the same range of the axis.
  function zoomOthers(source) {
    if (following) return;
    following = true;
    const window = source.isZoomed("x") ? source.xAxisRange() : null;
    for (const { graph } of graphs.values()) if (graph && graph !== source) graph.updateOptions({ dateWindow: window });
    following = false;
  }

  function remove(place) {
    graphs.get(place)?.graph?.destroy();
    graphs.delete(place);
  }

  // The settings of the controls.
  function wishes() {
    const axis = element("axis").value;
    const most = Math.max(0, ...data.runs.map((run) => run[axis] ? run[axis][run[axis].length - 1] : 0));
    const [scale, axisLabel] = axes[axis].unit(most);
    return {
      axis, scale, axisLabel,
      logarithmic: element("logarithmic").checked,
      ranged: element("range").checked,
      shown: [...document.querySelectorAll("#runs input")].map((box) => box.checked),
    };
  }

  function options(chart, curves, place, wished, isRanged) {
    const numbers = { axisLabelFormatter: written, valueFormatter: (value) => escaped(written(value)) };
    return {
      labels: [" x", ...curves.map((curve) => curve.label)],
      series: Object.fromEntries(curves.map((curve) => [curve.label, {
        color: curve.color,
        strokePattern: curve.dash,
        drawPoints: isSparse(curve) && !chart.stacked,
      }])),
      pointSize: 2.5,
      xRangePad: 4,  // a point at the end is seen whole
      customBars: isRanged,
      stackedGraph: chart.stacked,
      fillAlpha: chart.stacked ? 0.55 : 0.22,
      connectSeparatedPoints: !chart.stacked,
      logscale: wished.logarithmic && !chart.stacked,
      includeZero: chart.stacked,
      strokeWidth: 1.4,
      xlabel: wished.axisLabel,
      ylabel: escaped(chart.label),
      legend: "always",
      labelsDiv: place.previousElementSibling,
      legendFormatter: (found) => legendOf(place, found),
      stackedGraphNaNFill: "inside",
      axes: {
        x: {
          axisLabelFormatter: written,
          valueFormatter: (value) => value.toLocaleString("en", { maximumFractionDigits: 3 }),
          ticker: Dygraph.numericTicks,
          axisLabelWidth: 60,
        },
        y: { ...numbers, axisLabelWidth: 62 },
      },
      axisLabelFontSize: 12,
      axisLineColor: colorNamed("--faint"),
      gridLineColor: colorNamed("--line"),
      highlightCircleSize: 3,
      zoomCallback() { zoomOthers(this); },
    };
  }

  function drawChart(place, wished) {
    const { axis, logarithmic, ranged, shown, scale, axisLabel } = wished;
    const chart = data.charts[place.dataset.chart];
    const legend = place.previousElementSibling;
    const curves = curvesOf(chart, axis, shown);
    const isRanged = ranged && !chart.stacked;
    const rows = rowsOf(chart, curves, axis, scale, isRanged);
    const isAbove = (row) => row.slice(1).some((found) => found && (isRanged ? found[0] : found) > 0);
    let missing = "";
    if (curves.length === 0) missing = shown.some(Boolean) ? "No data over " + axes[axis].label + "." : "No run selected.";
    else if (logarithmic && !chart.stacked && !rows.some(isAbove)) missing = "No positive values for a logarithmic axis.";
    if (missing) {
      remove(place);
      legend.textContent = "";
      place.textContent = missing;
      return;
    }
    // A chart with more data keeps its visible range.
    const kind = JSON.stringify([axisLabel, isRanged, logarithmic, colorNamed("--line"), chart.label, curves.map((curve) => [curve.label, isSparse(curve)])]);
    const last = lastValues(rows, curves, isRanged);
    if (graphs.get(place)?.kind === kind) {
      graphs.get(place).last = last;
      graphs.get(place).graph.updateOptions({ file: rows });
      return;
    }
    remove(place);
    place.textContent = "";
    legend.textContent = "";
    graphs.set(place, { kind, last });  // the legend of the first drawing has them
    graphs.get(place).graph = new Dygraph(place, rows, options(chart, curves, place, wished, isRanged));
  }

  // Draws the first chart at once and the others in small groups, so that the page stays responsive.
  let turn = 0;
  function draw() {
    const mine = ++turn;
    delete document.documentElement.dataset.drawn;
    for (const place of graphs.keys()) if (!place.isConnected) remove(place);
    const wished = wishes();
    const places = [...document.querySelectorAll(".chart")];
    let next = 0;
    const drawSome = () => {
      if (mine !== turn) return;
      const began = performance.now();
      while (next < places.length && (next === 0 || performance.now() - began < 40)) drawChart(places[next++], wished);
      if (next < places.length) setTimeout(drawSome);
      else document.documentElement.dataset.drawn = graphs.size;
    };
    drawSome();
  }

  function mark() {
    for (const found of document.querySelectorAll(".color")) {
      const number = Number(found.dataset.run);
      found.style.borderColor = colorOf(number);
      found.style.borderBottomStyle = dashOf(number) ? "dashed" : "solid";
    }
  }

  // The text generated at the selected step.
  function showSamples(place) {
    const samples = data.runs[place.dataset.run].samples;
    const step = samples.steps[place.querySelector("input").value];
    place.querySelector("output").textContent = step.step.toLocaleString("en");
    place.querySelector(".written").replaceChildren(...step.texts.map((text) => {
      const list = document.createElement("dl");
      ["read", "written", "reference"].forEach((name, number) => {
        const said = samples.strings[text[number]];
        if (number === 2 && said === "") return;
        const term = document.createElement("dt"), description = document.createElement("dd");
        term.textContent = name;
        description.textContent = said;
        list.append(term, description);
      });
      return list;
    }));
  }

  // A slider stays where the user put it, otherwise at its end.
  function placeSamples() {
    for (const place of document.querySelectorAll(".samples")) {
      const slider = place.querySelector("input");
      const isLast = slider.value === slider.max;
      slider.max = data.runs[place.dataset.run].samples.steps.length - 1;
      if (isLast) slider.value = slider.max;
      slider.oninput = () => showSamples(place);
      showSamples(place);
    }
  }

  // The attention map of a head: one cell for each query and key.
  function showMap(place) {
    const { tokens, maps } = data.runs[place.dataset.run].attention;
    const map = maps[place.querySelector("select").value];
    const canvas = place.querySelector("canvas");
    const said = place.querySelector("output");
    const cell = Math.max(2, Math.min(16, Math.floor(640 / tokens.length)));
    canvas.width = canvas.height = cell * tokens.length;
    const context = canvas.getContext("2d");
    context.fillStyle = "#ffffff";
    context.fillRect(0, 0, canvas.width, canvas.height);
    const most = Math.max(1, ...map.weights.map((row) => Math.max(...row.map(Math.abs))));
    map.weights.forEach((row, query) => row.forEach((weight, key) => {
      if (weight === 0) return;
      // Negative weights use a second color.
      context.fillStyle = `rgb(${weight > 0 ? "11 79 148" : "176 58 10"} / ${Math.sqrt(Math.abs(weight) / most)})`;
      context.fillRect(cell * key, cell * query, cell, cell);
    }));
    said.textContent = "";
    canvas.onpointermove = (event) => {
      const [key, query] = [event.offsetX, event.offsetY].map((found) => Math.min(tokens.length - 1, Math.max(0, Math.floor(found / cell))));
      said.textContent = `token ${query} ${JSON.stringify(tokens[query])} attends to token ${key} ${JSON.stringify(tokens[key])} with weight ${map.weights[query][key] / 1000}`;
    };
  }

  function placeMaps() {
    for (const place of document.querySelectorAll(".attention")) {
      const chosen = place.querySelector("select");
      const before = chosen.value;
      chosen.replaceChildren(...data.runs[place.dataset.run].attention.maps.map((map, number) => new Option(`layer ${map.layer}, head ${map.head}`, number)));
      if (before in chosen.options) chosen.value = before;
      chosen.onchange = () => showMap(place);
      showMap(place);
    }
  }

  // The sections of the page before anything is drawn in them.
  const parts = new Map([...document.querySelectorAll("[data-part]")].map((place) => [place.dataset.part, place.innerHTML.trim()]));
  function parsed(text) {
    const place = document.createElement("div");
    place.innerHTML = text;
    return place.innerHTML.trim();
  }

  // Applies an update: replaces the sections that changed and keeps the settings of the user.
  function take(update) {
    const off = [...document.querySelectorAll("#runs input")].map((box) => !box.checked);
    const open = [...document.querySelectorAll("[data-part] details")].map((found) => found.open);
    for (const place of document.querySelectorAll("[data-part]")) {
      const text = parsed(update[place.dataset.part]);
      if (parts.get(place.dataset.part) === text) continue;
      parts.set(place.dataset.part, text);
      place.innerHTML = text;
    }
    document.querySelectorAll("#runs input").forEach((box, number) => { box.checked = !off[number]; });
    document.querySelectorAll("[data-part] details").forEach((found, number) => { found.open = open[number] ?? false; });
    data = update.data;
    document.querySelector("h1").innerHTML = update.title;
    document.title = document.querySelector("h1").textContent;
    mark();
    placeSamples();
    placeMaps();
    draw();
  }

  // Polls for updates.
  function watch(status) {
    let version = "\"" + status.dataset.version + "\"";
    let updated = "";
    const tell = (state) => { status.textContent = `${state}, updated at ${updated}.`; };
    const note = () => {
      updated = new Date().toLocaleTimeString("en", { hour12: false });
      tell("Live");
    };
    note();
    const ask = async () => {
      const began = performance.now();
      try {
        const answer = await fetch("update", { cache: "no-store", headers: { "If-None-Match": version } });
        if (answer.status === 200) {
          take(await answer.json());
          version = answer.headers.get("ETag");
          note();
        } else if (answer.status !== 304) {
          throw new Error(String(answer.status));
        }
        tell("Live");
      } catch {
        tell("The server of this page does not respond");
      }
      setTimeout(ask, Math.max(2000, 10 * (performance.now() - began)));
    };
    setTimeout(ask, 2000);
  }

  element("controls").addEventListener("submit", (event) => event.preventDefault());
  element("controls").addEventListener("change", draw);
  document.querySelector('[data-part="runs"]').addEventListener("change", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  mark();
  placeSamples();
  placeMaps();
  draw();
  const status = element("watching");
  if (status) watch(status);
})();
