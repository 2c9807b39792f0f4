// Package github tells GitHub Actions of outcomes: a summary of the job in Markdown,
// and annotations.
//
// A Report gathers outcomes by scenario, and holds no more than it will show, so that
// a sweep of a million seeds fits. Summary is what $GITHUB_STEP_SUMMARY takes, and is
// cut before its limit of 1 MiB; Annotations are workflow commands, of which GitHub
// shows ten for each step.
//
// Deliberately missing: reading GitHub's environment, which is the command line's.
package suites
