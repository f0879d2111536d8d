#!/usr/bin/env bash
# Longspan on two machines without a queue. Copy it, change what is marked, and start it on one of the two.
# SPDX-License-Identifier: Apache-2.0
#
# Needed on both: the same Open MPI, this tree built at the same path (launch/setup), the same training text, and
# ssh from the one where this starts to the other without a password. The run's directory must be the same on both (a
# shared file system): each rank writes its part of a checkpoint there.
set -euo pipefail

# change: where the tree is on both machines, and what to run
cd "$HOME/longspan"
configuration=configs/quickstart.yaml

# change: rows of a batch, of which each rank takes its share. They are the same for as long as the run goes on, also on
# other machines: choose a number that the ranks of any of them divide
batch=32

# change: the machines, in hosts.txt: one line each, slots = ranks to start there
hosts=launch/cluster/hosts.txt

# change: threads a rank (cores of a machine / its slots)
export OMP_NUM_THREADS=4

ranks=$(awk -F'slots=' '!/^#/ && NF > 1 { sum += $2 } END { print sum }' "$hosts")

# The neighbours in the tensor axis talk most: by slot keeps them on one machine.
# -x hands a variable to the ranks of the other machine. btl_tcp_if_include picks the network by its address range, when
# the machines have several:  --mca btl_tcp_if_include 10.0.0.0/24
# To stop with a checkpoint: Ctrl-C, or kill <the process id of this script>   (exit code 75; start again to go on)
exec build/launch/longspan run -n "$ranks" --hostfile "$hosts" --map-by slot --bind-to none -x OMP_NUM_THREADS -- \
  train "$configuration" \
  --set parallel.data_parallel_size="$ranks" --set data.global_batch_size="$batch" --set run.output_dir=runs/two-nodes
