#!/bin/sh
# A sweep as a replicated job of a Docker swarm, with a folder that all nodes see at the same path:
#
#   swarm.sh NAME 8 IMAGE /shared/store baseline/ --seeds 10000
#   lockpick merge /shared/store
#
# NAME is the service's, 8 how many shards there are, IMAGE has lockpick as its entry point, and the
# rest are words of "lockpick run". AT_ONCE bounds how many run at a time. The script ends when all
# shards are recorded, or none can be. A swarm makes a task again that was killed, whose node died, or
# that failed: it has no bound for that in jobs, so wrong usage (64) ends the sweep here.
set -eu
name=$1 shards=$2 image=$3 store=$4
shift 4

# Slots count from 0, and for slot 0 the template gives the node's ID: --shard auto knows that.
docker service create --detach --quiet --name "$name" --mode replicated-job \
	--replicas "$shards" --max-concurrent "${AT_ONCE:-$shards}" \
	--env 'LOCKPICK_SLOT={{.Task.Slot}}' --env 'LOCKPICK_NODE={{.Node.ID}}' \
	--mount "type=bind,src=$store,dst=/store" --no-resolve-image \
	"$image" run --shard "auto/$shards" --store /store "$@" >/dev/null
trap 'docker service rm "$name" >/dev/null' EXIT
trap 'exit 130' INT TERM

while :; do
	done=$(docker service ps "$name" --format '{{.CurrentState}}' | grep -c ^Complete || :)
	echo "sweep: $done of $shards shards are recorded" >&2
	[ "$done" -lt "$shards" ] || exit 0
	if docker service ps "$name" --no-trunc --format '{{.Error}}' | grep -q 'exit (64)'; then
		docker service logs "$name" 2>&1 | grep -m 2 -E 'error:|hint:'
		exit 64
	fi
	sleep 1
done
