"""Prints the runs of an offline directory of Weights & Biases, or of an SQLite file of MLflow, as JSON.

    LONGSPAN_PEERS/bin/python tests/peers/services_read.py wandb FOLDER
    LONGSPAN_PEERS/bin/python tests/peers/services_read.py mlflow sqlite:///FILE

Non-finite numbers are "nan", "inf" or "-inf".
"""

import json
import math
import struct
import sys
from pathlib import Path


def json_value(value):
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def records(content):
    """Yields the records of a .wandb file: a header of 7 bytes, then blocks of 32 KiB. A record can span blocks."""
    place, record = 7, b""
    while place + 7 <= len(content):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        _, length, kind = struct.unpack_from("<IHB", content, place)
        record += content[place + 7:place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # complete, or the last part
            yield record
            record = b""


def wandb_runs(folder):
    """Returns the history of each run: {name: [{key: value}]}."""
    from wandb.proto import wandb_internal_pb2

    found = {}
    for path in sorted(Path(folder).glob("wandb/offline-run-*/run-*.wandb")):
        history, name = [], ""
        for content in records(path.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(content)
            kind = record.WhichOneof("record_type")
            if kind == "run":
                name = record.run.display_name
            elif kind == "history":
                history.append({item.key or "/".join(item.nested_key): json_value(json.loads(item.value_json)) for item in record.history.item})
        found[name] = history
    return found


def mlflow_runs(address):
    """Returns {name: {key: [[step, value, timestamp]]}}."""
    import mlflow

    mlflow.set_tracking_uri(address)
    client, found = mlflow.MlflowClient(), {}
    for run in client.search_runs(["0"]):
        found[run.info.run_name] = {key: [[one.step, json_value(one.value), one.timestamp]
                                          for one in client.get_metric_history(run.info.run_id, key)]
                                    for key in run.data.metrics}
    return found


print(json.dumps({"wandb": wandb_runs, "mlflow": mlflow_runs}[sys.argv[1]](sys.argv[2])))
