"""Prints a directory of TensorBoard events as JSON.

    LONGSPAN_PEERS/bin/python tests/peers/tensorboard_reads.py RUN/tensorboard
"""

import json
import sys

from tensorboard.backend.event_processing import plugin_event_accumulator
from tensorboard.plugins.hparams import metadata
from tensorboard.util import tensor_util

accumulator = plugin_event_accumulator.EventAccumulator(sys.argv[1], size_guidance={"tensors": 0})
accumulator.Reload()
found = {"scalars": {}, "histograms": {}, "texts": {}, "hyper_parameters": {}}
for plugin in accumulator.ActivePlugins():
    for tag, content in accumulator.PluginTagToContent(plugin).items():
        tensors = accumulator.Tensors(tag)
        if plugin == "scalars":
            found["scalars"][tag] = [[each.step, float(tensor_util.make_ndarray(each.tensor_proto))] for each in tensors]
        elif plugin == "histograms":
            found["histograms"][tag] = [each.step for each in tensors]
        elif plugin == "text":
            found["texts"][tag] = [each.step for each in tensors]
        elif plugin == "hparams":
            keys = metadata.parse_session_start_info_plugin_data(content).hparams
            found["hyper_parameters"] = {key: getattr(value, value.WhichOneof("kind")) for key, value in keys.items()}
print(json.dumps(found))
