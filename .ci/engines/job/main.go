// Command job reads a manifest of a Kubernetes Job as the API server does, which refuses what it
// does not know, and prints what each of its pods runs, as JSON.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	batch "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := print(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func print(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var job batch.Job
	if err := yaml.UnmarshalStrict(text, &job); err != nil {
		return err
	}
	spec := job.Spec
	switch pods := spec.Template.Spec; {
	case job.APIVersion != batch.SchemeGroupVersion.String() || job.Kind != "Job":
		return fmt.Errorf("%s: it is a %s of %s", path, job.Kind, job.APIVersion)
	case spec.CompletionMode == nil || *spec.CompletionMode != batch.IndexedCompletion || spec.Completions == nil:
		return fmt.Errorf("%s: its pods have no index", path)
	case spec.BackoffLimitPerIndex != nil && pods.RestartPolicy != "Never", spec.PodFailurePolicy != nil && pods.RestartPolicy != "Never":
		return fmt.Errorf("%s: restartPolicy is %s, and has to be Never", path, pods.RestartPolicy)
	case len(pods.Containers) != 1:
		return fmt.Errorf("%s: it has %d containers", path, len(pods.Containers))
	}
	c := spec.Template.Spec.Containers[0]
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"completions": *spec.Completions, "command": c.Command, "args": c.Args})
}
