#!/usr/bin/env bash
# Longspan on a PBS cluster (OpenPBS, PBS Professional). Copy it, change what is marked, then beside it: qsub pbs.sh
# The job saves before its time is over and asks the queue for itself again, and goes on where it stopped, as often as
# it takes. It does so too when a machine was lost or a rank hung, unless that has come three times with the same step
# saved. Options of qsub belong into this file: what was said on the command line is not said again. Variables belong
# here too, by `export`: `#PBS -v` would not count the next time, as the job says `qsub -v` itself.
#   qsig -s USR1 JOB   saves now and asks for itself again
#   qsig -s TERM JOB   saves and ends
#   qdel JOB           ends within seconds: what came after the last checkpoint is lost
# SPDX-License-Identifier: Apache-2.0

# change: nodes, cores and ranks of a node; nodes x ranks = parallel.data_parallel_size x tensor x context;
# cores = ranks x threads
#PBS -l select=2:ncpus=32:mpiprocs=8
# change: as long as the queue allows; nothing is lost at the end
#PBS -l walltime=04:00:00
#PBS -N longspan
#PBS -j oe

set -uo pipefail

# change: seconds after the start at which to save, which is the walltime less the time that a save needs
seconds=$((4 * 3600 - 180))

# change: threads a rank
export OMP_NUM_THREADS=4

# change: the tree, on a file system that all nodes see, and what to run there
cd "$HOME/longspan" || exit
configuration=configs/quickstart.yaml
directory=runs/$PBS_JOBNAME
settings=(--set run.output_dir="$directory" --set parallel.data_parallel_size=16 --set data.global_batch_size=64)

# change: the name of this file; PBS runs a copy of it elsewhere
script=pbs.sh

# USR1 asks to save and to go on later, TERM to save and end. It is heard however early it comes.
run=
asked=
ask() {
  heard=yes
  [ "$asked" = end ] || asked=$1
  [ -z "$run" ] || kill -USR1 "$run" 2>/dev/null
}
trap 'ask again' USR1
trap 'ask end' TERM

# $PBS_NODEFILE has a line for each rank. Where Open MPI was built without PBS it reaches the other nodes by ssh, or,
# where that is not allowed, by PBS:  --mca plm_rsh_agent pbs_tmrsh
# PBS gives no signal before the end of the time, timeout does. In the background, so that this script hears signals.
timeout --preserve-status --signal=USR1 "$seconds" build/launch/longspan run -n "$(wc -l <"$PBS_NODEFILE")" \
  --hostfile "$PBS_NODEFILE" --map-by slot --bind-to none -x OMP_NUM_THREADS -- \
  train "$configuration" "${settings[@]}" &
run=$!
[ -z "$asked" ] || kill -USR1 "$run"

# A signal ends `wait` while the run is still saving: wait again.
heard=yes
while [ "$heard" = yes ]; do
  heard=no
  status=0
  wait "$run" || status=$?
done
# 75: stopped on request, checkpoint saved. 138: asked before it could listen, so there was nothing to save.
[ "$status" != 138 ] || [ -z "$asked" ] || status=75

# The next job is told how often a machine was lost, and with what saved. A job that a person starts counts anew.
LOST_TIMES=${LOST_TIMES:-0}
LOST_SAVED=${LOST_SAVED:-nothing}
again() {
  [ "$asked" = end ] || (cd "$PBS_O_WORKDIR" && qsub -v "LOST_TIMES=$LOST_TIMES,LOST_SAVED=$LOST_SAVED" "$script") ||
    echo "cannot be queued again: qsub it to go on" >&2
}

# 5: a machine was lost, or a rank failed or hung. Counted is how often with the same step, from which the run goes on.
after_loss() {
  local saved
  saved=$(find "$directory/checkpoints" -maxdepth 1 -name 'step-*' ! -name '*.*' 2>/dev/null | sort | tail -n 1)
  saved=$(basename "${saved:-nothing}")
  [ "$saved" = "$LOST_SAVED" ] || LOST_TIMES=0
  LOST_TIMES=$((LOST_TIMES + 1))
  LOST_SAVED=$saved
  if [ "$LOST_TIMES" -lt 3 ]; then
    echo "a machine was lost or a rank hung, time $LOST_TIMES with $saved saved: gives up at the third"
    again
  else
    echo "gives up: a machine was lost or a rank hung three times with $saved saved" >&2
  fi
}

case $status in
  0) echo "done" ;;
  75) again ;;
  5) after_loss ;;
  *) echo "ended with exit code $status; launch/README.md says what it means" >&2 ;;
esac
exit "$status"
