#!/usr/bin/env bash
# Longspan on two hosts without a scheduler. Copy this file, edit the lines marked "change:", and run it on one host.
# SPDX-License-Identifier: Apache-2.0
#
# Requirements on both hosts: the same Open MPI, this tree built at the same path (launch/setup), the same training data, and
# password-less ssh from this host to the other. The run directory must be on a shared file system: each rank writes its
# part of a checkpoint there.
set -euo pipefail

# change: the path of the source tree on both hosts, and the configuration
cd "$HOME/longspan"
configuration=configs/quickstart.yaml

# change: rows of the global batch, sharded over the ranks. They stay the same when the run resumes on other hosts: choose a
# multiple of every number of ranks
batch=32

# change: the hosts, in hosts.txt: one line per host, slots = ranks to start there
hosts=launch/cluster/hosts.txt

# change: threads per rank (cores of a host / its slots)
export OMP_NUM_THREADS=4

ranks=$(awk -F'slots=' '!/^#/ && NF > 1 { sum += $2 } END { print sum }' "$hosts")

# --map-by slot keeps tensor-parallel ranks, which communicate most, on one host. -x passes a variable to the other host.
# With several networks, select one by its address range:  --mca btl_tcp_if_include 10.0.0.0/24
# To save a checkpoint and stop: Ctrl-C, or kill <the process id of this script>   (exit code 75; run again to resume)
exec build/launch/longspan launch -n "$ranks" --hostfile "$hosts" --map-by slot --bind-to none -x OMP_NUM_THREADS -- \
  train "$configuration" \
  --set parallel.data_parallel_size="$ranks" --set data.global_batch_size="$batch" --set run.output_dir=runs/two-nodes
