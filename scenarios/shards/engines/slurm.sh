#!/bin/sh
# A sweep as an array of Slurm's, with a store that all nodes see:
#
#   sbatch --array=1-8 slurm.sh 8 baseline/ --seeds 10000 --store /shared/store
#   lockpick merge /shared/store
#   sbatch --array=$(lockpick merge --missing /shared/store) slurm.sh 8 …the same…
#
# The first word is how many shards there are, whatever part of the array is submitted; the rest
# are those of "lockpick run". LOCKPICK is the program, if it is not on the path.
#
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=sweep-%A_%a.log
shards=$1
shift
"${LOCKPICK:-lockpick}" run --shard "auto/$shards" "$@"
code=$?

# Slurm makes a job again whose node died, not one whose process was killed: for want of memory, say.
# 130 is scancel's.
if [ $code -ge 128 ] && [ $code -ne 130 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 3 ]; then
	echo "sweep: ended with $code; to be made again" >&2
	scontrol requeue "$SLURM_JOB_ID"
fi
exit $code
