// Gives the numbers of the page to dygraphs, which draws them.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const element = (id) => document.getElementById(id);
  // Each has a contrast of at least 3 to 1 against the white and the dark background.
  const colours = ["#0b7fc4", "#d1580a", "#15945f", "#b35fa3", "#8a7a00", "#6f6fe0", "#c9475d", "#5b8a8f"];
  const dashes = [null, [8, 3], [2, 3], [10, 3, 2, 3]];  // where there are more runs than colours
  const colourOf = (number) => colours[number % colours.length];
  const dashOf = (number) => dashes[Math.floor(number / colours.length) % dashes.length];

  const axes = {
    step: { label: "steps", unit: () => [1, "steps"] },
    tokens: { label: "tokens", unit: () => [1, "tokens"] },
    seconds: {
      label: "time of training",
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
  const colourNamed = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // The buckets of a column: [place of the bucket, least, mean, most] of each that has something.
  function* bucketsOf(column) {
    for (let i = 0; i < column.mean.length; ++i) {
      const mean = column.mean[i];
      const place = column.at ? column.at[i] : i;
      if (mean === null) yield [place, NaN, NaN, NaN];
      else yield [place, column.least ? column.least[i] : mean, mean, column.most ? column.most[i] : mean];
    }
  }

  // The curves of a chart: of the runs that are shown, have its columns and know the axis.
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
          colour: colourOf(chart.stacked ? place : number),
          dash: chart.stacked ? null : place === 0 ? dashOf(number) : [4, 3],
        });
      });
    });
    return curves;
  }

  // Rows for dygraphs: x, then for each curve its value or [least, mean, most]. Null where a curve has no point at
  // that x, NaN where it has a gap.
  function rowsOf(chart, curves, axis, scale, ranged) {
    const rows = new Map();
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

  let drawn = [];
  let following = false;

  // What one chart shows of the axis, the others show too.
  function zoomOthers(source) {
    if (following) return;
    following = true;
    const window = source.isZoomed("x") ? source.xAxisRange() : null;
    for (const graph of drawn) if (graph !== source) graph.updateOptions({ dateWindow: window });
    following = false;
  }

  function draw() {
    const axis = element("axis").value;
    const logarithmic = element("logarithmic").checked;
    const ranged = element("range").checked;
    const shown = [...document.querySelectorAll("#runs input")].map((box) => box.checked);
    const most = Math.max(0, ...data.runs.map((run) => run[axis] ? run[axis][run[axis].length - 1] : 0));
    const [scale, axisLabel] = axes[axis].unit(most);
    drawn.forEach((graph) => graph.destroy());
    drawn = [];
    for (const place of document.querySelectorAll(".chart")) {
      const chart = data.charts[place.dataset.chart];
      const legend = place.previousElementSibling;
      const curves = curvesOf(chart, axis, shown);
      place.textContent = "";
      legend.textContent = "";
      if (curves.length === 0) {
        place.textContent = shown.some(Boolean) ? "Not known over " + axes[axis].label + "." : "No run is chosen.";
        continue;
      }
      const isRanged = ranged && !chart.stacked;
      const rows = rowsOf(chart, curves, axis, scale, isRanged);
      if (logarithmic && !chart.stacked && !rows.some((row) => row.slice(1).some((found) => found && (isRanged ? found[0] : found) > 0))) {
        place.textContent = "Nothing is above 0: there is no logarithm.";
        continue;
      }
      const numbers = { axisLabelFormatter: written, valueFormatter: (value) => escaped(written(value)) };
      drawn.push(new Dygraph(place, rows, {
        labels: [" x", ...curves.map((curve) => curve.label)],
        series: Object.fromEntries(curves.map((curve) => [curve.label, { color: curve.colour, strokePattern: curve.dash }])),
        customBars: isRanged,
        stackedGraph: chart.stacked,
        fillAlpha: chart.stacked ? 0.55 : 0.22,
        connectSeparatedPoints: !chart.stacked,
        logscale: logarithmic && !chart.stacked,
        includeZero: chart.stacked,
        strokeWidth: 1.4,
        xlabel: axisLabel,
        ylabel: escaped(chart.label),
        legend: "always",
        labelsDiv: legend,
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
        axisLineColor: colourNamed("--faint"),
        gridLineColor: colourNamed("--line"),
        highlightCircleSize: 3,
        zoomCallback() { zoomOthers(this); },
      }));
    }
    document.documentElement.dataset.drawn = drawn.length;
  }

  for (const mark of document.querySelectorAll(".colour")) {
    const number = Number(mark.dataset.run);
    mark.style.borderColor = colourOf(number);
    mark.style.borderBottomStyle = dashOf(number) ? "dashed" : "solid";
  }
  element("controls").addEventListener("submit", (event) => event.preventDefault());
  element("controls").addEventListener("change", draw);
  element("runs").addEventListener("change", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
})();
