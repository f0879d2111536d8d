#!/usr/bin/env bash
# Longspan on a PBS cluster (OpenPBS, PBS Professional). Copy this file, edit the lines marked "change:", then run
# "qsub pbs.sh" in its directory.
# The job saves a checkpoint before its walltime ends, requeues itself and resumes, until training is finished. It also
# requeues itself after a lost node or a hung rank, but not after three such failures at the same saved step. Put qsub
# options into this file: those of the command line are not repeated. Set variables with `export`: the job itself uses
# `qsub -v`, which replaces `#PBS -v`.
#   qsig -s USR1 JOB   saves a checkpoint and requeues
#   qsig -s TERM JOB   saves a checkpoint and ends
#   qdel JOB           ends within seconds; steps after the last checkpoint are lost
# SPDX-License-Identifier: Apache-2.0

# change: nodes, cores and ranks per node; nodes x ranks = parallel.data_parallel_size x tensor x context;
# cores = ranks x threads
#PBS -l select=2:ncpus=32:mpiprocs=8
# change: the limit of the queue; nothing is lost at the end
#PBS -l walltime=04:00:00
#PBS -N longspan
#PBS -j oe

set -uo pipefail

# change: seconds until the last checkpoint: the walltime minus the time that saving takes
seconds=$((4 * 3600 - 180))

# change: threads per rank
export OMP_NUM_THREADS=4

# change: the source tree, on a file system shared by all nodes, and the configuration
cd "$HOME/longspan" || exit
configuration=configs/quickstart.yaml
directory=runs/$PBS_JOBNAME
settings=(--set run.output_dir="$directory" --set parallel.data_parallel_size=16 --set data.global_batch_size=64)

# change: the name of this file; PBS runs a copy in another directory
script=pbs.sh

# USR1 requests a checkpoint and a requeue, TERM a checkpoint and the end of the job. Signals also work during startup.
run=
asked=
ask() {
  signaled=yes
  [ "$asked" = end ] || asked=$1
  [ -z "$run" ] || kill -USR1 "$run" 2>/dev/null
}
trap 'ask again' USR1
trap 'ask end' TERM

# $PBS_NODEFILE has one line per rank. An Open MPI built without PBS support uses ssh to reach the other nodes, or, if ssh is
# not allowed, PBS:  --mca plm_rsh_agent pbs_tmrsh
# PBS sends no signal before the walltime ends, so timeout does. In the background, so that this script receives signals.
timeout --preserve-status --signal=USR1 "$seconds" build/launch/longspan launch -n "$(wc -l <"$PBS_NODEFILE")" \
  --hostfile "$PBS_NODEFILE" --map-by slot --bind-to none -x OMP_NUM_THREADS -- \
  train "$configuration" "${settings[@]}" &
run=$!
[ -z "$asked" ] || kill -USR1 "$run"

# A signal interrupts `wait` while the run is still saving: wait again.
signaled=yes
while [ "$signaled" = yes ]; do
  signaled=no
  status=0
  wait "$run" || status=$?
done
# 75: stopped as requested, checkpoint saved. 138: stopped before the signal handler was installed, nothing to save.
[ "$status" != 138 ] || [ -z "$asked" ] || status=75

# Passed to the next job: the number of failures, and the last saved step. A job submitted manually starts from zero.
FAILURES=${FAILURES:-0}
FAILED_AT=${FAILED_AT:-nothing}
again() {
  [ "$asked" = end ] || (cd "$PBS_O_WORKDIR" && qsub -v "FAILURES=$FAILURES,FAILED_AT=$FAILED_AT" "$script") ||
    echo "Requeue failed; run qsub to resume" >&2
}

# 5: a node was lost, or a rank failed or hung. Counts such failures with the same last saved step.
after_failure() {
  local saved
  saved=$(find "$directory/checkpoints" -maxdepth 1 -name 'step-*' ! -name '*.*' 2>/dev/null | sort | tail -n 1)
  saved=$(basename "${saved:-nothing}")
  [ "$saved" = "$FAILED_AT" ] || FAILURES=0
  FAILURES=$((FAILURES + 1))
  FAILED_AT=$saved
  if [ "$FAILURES" -lt 3 ]; then
    echo "Node lost or rank hung: failure $FAILURES of at most 3 at $saved"
    again
  else
    echo "Not requeued: 3 lost nodes or hung ranks at $saved" >&2
  fi
}

case $status in
  0) echo "Finished" ;;
  75) again ;;
  5) after_failure ;;
  *) echo "Failed with exit code $status; see the exit codes in launch/README.md" >&2 ;;
esac
exit "$status"
