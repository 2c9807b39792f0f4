#!/bin/sh
# A sweep as a Slurm job array, with a store that all nodes share:
#
#   sbatch --array=1-8 slurm.sh 8 baseline/ --seeds 10000 --store /shared/store
#   lockpick merge /shared/store
#   sbatch --array=$(lockpick merge --missing /shared/store) slurm.sh 8 …same arguments…
#
# The first argument is the number of shards, even if you submit only a part of the array. The other
# arguments are passed to "lockpick run". Set LOCKPICK to the program if it is not on the path.
#
# If the nodes share no folder, omit --store and set COPY_TO. The script then copies the folder of each
# shard with "aws s3 cp --recursive", or with the command in COPY, such as "rclone copy":
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

# Slurm requeues a job after a node failure, but not if its process was killed, for example because
# memory ran out. Exit code 130 means scancel.
if [ $code -ge 128 ] && [ $code -ne 130 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 3 ]; then
	echo "sweep: exit code $code; requeuing" >&2
	scontrol requeue "$SLURM_JOB_ID"
fi
exit $code
