#!/bin/sh
# A sweep as a Slurm array, with a store that all nodes see:
#
#   sbatch --array=1-8 slurm.sh 8 baseline/ --seeds 10000 --store /shared/store
#   lockpick merge /shared/store
#   sbatch --array=$(lockpick merge --missing /shared/store) slurm.sh 8 …the same…
#
# The first argument is the number of shards, whatever part of the array is submitted; the others
# are arguments of "lockpick run". LOCKPICK is the program, if it is not on the path.
#
# If the nodes share no folder, leave --store out and set COPY_TO. COPY then copies the folder of
# each shard, with "aws s3 cp --recursive" unless you name another command, such as "rclone copy":
#
#   export COPY_TO=s3://sweeps/baseline
#   sbatch --array=1-8 slurm.sh 8 baseline/ --seeds 10000
#   aws s3 cp --recursive s3://sweeps/baseline results
#   lockpick merge results
#
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=sweep-%A_%a.log
shards=$1
shift
k=$SLURM_ARRAY_TASK_ID
if [ -n "${COPY_TO:-}" ]; then
	store=$(mktemp -d) || exit
	trap 'rm -rf "$store"' EXIT
	set -- "$@" --store "$store"
fi
"${LOCKPICK:-lockpick}" run --shard "$k/$shards" "$@" &&
	{ [ -z "${COPY_TO:-}" ] || ${COPY:-aws s3 cp --recursive} "$store" "$COPY_TO/$k"; }
code=$?

# Slurm makes a job again whose node died, not one whose process was killed: for want of memory, say.
# 130 is scancel's.
if [ $code -ge 128 ] && [ $code -ne 130 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 3 ]; then
	echo "sweep: ended with $code; to be made again" >&2
	scontrol requeue "$SLURM_JOB_ID"
fi
exit $code
