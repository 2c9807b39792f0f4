//go:build nightly && linux

package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestUnplannedOnDocker checks that a run notices if a container, or a process in it, is killed,
// stopped or paused from outside.
func TestUnplannedOnDocker(t *testing.T) {
	needEngine(t)
	binary := build(t)
	for _, c := range []struct {
		scenario, container, actor string
		ways                       []string
	}{
		{oneNode, "n1-11", "n1", []string{"kill", "pause", "restart", "SIGKILL", "SIGSTOP", "SIGSTOP SIGCONT", "network"}},
		{oneNode, "r1-10", "r1", []string{"kill", "pause", "SIGSTOP SIGCONT"}},
		{oneNode, "c1", "c1", []string{"kill", "pause", "SIGKILL", "SIGSTOP"}},
		{oneNode, "c1", "c1", []string{"inside SIGKILL", "inside SIGSTOP", "inside SIGSTOP SIGCONT"}},
		{oneNode, "links", "links", []string{"kill", "pause", "SIGKILL", "SIGSTOP", "SIGSTOP SIGCONT"}},
		{oneNode, "address11", "n1", []string{"kill"}},
		// a failover depends on these
		{watchedNode, "n1-replica-51", "n1-replica", []string{"kill", "pause", "restart", "SIGKILL", "SIGSTOP", "SIGSTOP SIGCONT", "network"}},
		{watchedNode, "sentinel2", "sentinel2", []string{"kill", "pause", "restart", "SIGKILL", "SIGSTOP", "SIGSTOP SIGCONT", "network"}},
	} {
		for _, way := range c.ways {
			t.Run(c.container+": "+way, func(t *testing.T) {
				checkRetried(t, attack{binary, c.scenario, "docker", 1, func(lockpick int) error { return hitContainerOf(lockpick, c.container, way) }}, c.actor)
			})
		}
	}
	for container, scenario := range map[string]string{"n1-11": oneNode, "r1-10": oneNode, "c1": oneNode, "links": oneNode,
		"n1-replica-51": watchedNode, "sentinel2": watchedNode} {
		t.Run(container+" in each try", func(t *testing.T) {
			a := attack{binary, scenario, "docker", everyAttempt, func(lockpick int) error { return hitContainerOf(lockpick, container, "kill") }}
			if code, output := a.run(t); code != 2 && code != 3 {
				t.Errorf("exit code %d:\n%s", code, output)
			}
		})
	}
}

// TestUnplannedOnWatchers is TestUnplannedOnDocker for replicas and sentinels.
func TestUnplannedOnWatchers(t *testing.T) {
	binary := lockpickPath(t)
	for _, name := range []string{"n1-replica", "sentinel2"} {
		for way, all := range waysToHit {
			t.Run(name+" is "+way, func(t *testing.T) {
				t.Parallel()
				checkRetried(t, attack{binary, watchedNode, "process", 1, attackOnChild(name, all...)}, name)
			})
		}
		t.Run(name+" in each try", func(t *testing.T) {
			t.Parallel()
			a := attack{binary, watchedNode, "process", everyAttempt, attackOnChild(name, syscall.SIGKILL)}
			if code, output := a.run(t); code != 2 && code != 3 {
				t.Errorf("exit code %d:\n%s", code, output)
			}
		})
	}
}

// hitContainerOf hits a lockpick container through the engine, or sends signals to its first
// process or to that process's child.
func hitContainerOf(lockpick int, name, way string) error {
	list, err := exec.Command("docker", "ps", "--format", "{{.Names}}").Output()
	if err != nil {
		return err
	}
	container := ""
	for _, candidate := range strings.Fields(string(list)) {
		if strings.HasSuffix(candidate, "-"+name) && strings.Contains(candidate, strconv.Itoa(lockpick)) {
			container = candidate
		}
	}
	if container == "" {
		return fmt.Errorf("lockpick has no container %s, only %s", name, list)
	}
	words := strings.Fields(way)
	if way == "network" {
		net, err := exec.Command("docker", "inspect", "--format", "{{.HostConfig.NetworkMode}}", container).Output()
		if err != nil {
			return err
		}
		holder := strings.TrimPrefix(strings.TrimSpace(string(net)), "container:")
		all, err := exec.Command("docker", "inspect", "--format", "{{range $name, $_ := .NetworkSettings.Networks}}{{$name}}{{end}}", holder).Output()
		if err != nil {
			return err
		}
		return exec.Command("docker", "network", "disconnect", strings.TrimSpace(string(all)), holder).Run()
	}
	if !strings.Contains(way, "SIG") {
		return exec.Command("docker", append(words, container)...).Run()
	}
	text, err := exec.Command("docker", "inspect", "--format", "{{.State.Pid}}", container).Output()
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if words[0] == "inside" {
		words = words[1:]
		pid, err = childProcess(pid)
	}
	if err != nil {
		return err
	}
	var all []syscall.Signal
	for _, word := range words {
		all = append(all, map[string]syscall.Signal{"SIGKILL": syscall.SIGKILL, "SIGSTOP": syscall.SIGSTOP, "SIGCONT": syscall.SIGCONT}[word])
	}
	return sendSignals(pid, all...)
}

// childProcess returns the ID of a child of process pid.
func childProcess(pid int) (int, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		if text, _ := os.ReadFile(task); len(text) > 0 { // empty if the thread has ended
			return strconv.Atoi(strings.Fields(string(text))[0])
		}
	}
	return 0, fmt.Errorf("process %d has no child: %v", pid, err)
}

// TestInterferencesOnDocker kills, pauses, stops or ends any part of a run in containers at any
// time, from the start of the first container to the removal of the last. The attempt must be
// discarded and the run retried.
func TestInterferencesOnDocker(t *testing.T) {
	needEngine(t)
	dockerSaboteur(t).sabotage(cmp.Or(*interferences, 60), 2)
}
