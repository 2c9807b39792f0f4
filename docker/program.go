package docker

import (
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"lockpick/docker/engine"
	"lockpick/harness/real/proc"
	"lockpick/internal/files"
)

// clientPath is the path of lockpick in the image for clients.
const clientPath = "/bin/lockpick"

// clientPackage is the package to build for containers that cannot run this binary.
const clientPackage = "lockpick/cmd/lockpick"

// clientProgram finds or builds the program for clients on first use.
type clientProgram struct {
	binary string // Config.ClientBinary

	mu         sync.Mutex
	builtImage *image
}

// image returns an image of lockpick for an architecture, with the binary that the user specified, this
// binary, or one built from source.
func (p *clientProgram) image(ctx context.Context, arch string, say func(string)) (*image, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.builtImage != nil {
		return p.builtImage, nil
	}
	file, unsuitableErr, err := p.chooseBinary(arch)
	if err != nil {
		return nil, err
	}
	if unsuitableErr != nil {
		dir, err := proc.MakeDir(os.TempDir())
		if err != nil {
			return nil, fmt.Errorf("build the clients' program: %w", err)
		}
		defer os.RemoveAll(dir)
		file = filepath.Join(dir, "lockpick")
		say(fmt.Sprintf("building lockpick for clients: %v", unsuitableErr))
		if err := runGo(ctx, arch, dir, "build", "-o", file, clientPackage); err != nil {
			return nil, missingProgramError(unsuitableErr, err, arch)
		}
	}
	p.builtImage, err = newImage("client", file, clientPath)
	return p.builtImage, err
}

// checkSupported returns an error if there is no client program and none can be built. It does not try to
// build one.
func (p *clientProgram) checkSupported(ctx context.Context, arch string) error {
	_, unsuitableErr, err := p.chooseBinary(arch)
	if err != nil || unsuitableErr == nil {
		return err
	}
	if err := runGo(ctx, arch, "", "list", clientPackage); err != nil {
		return missingProgramError(unsuitableErr, err, arch)
	}
	return nil
}

// chooseBinary returns the binary that the user specified, which must be suitable, or this binary. If this
// binary is unsuitable, unsuitableErr states why.
func (p *clientProgram) chooseBinary(arch string) (file string, unsuitableErr, err error) {
	if file := p.binary; file != "" {
		if err := checkStatic(file, arch); err != nil {
			return "", nil, &MissingError{fmt.Errorf("clients can't run the --client-binary: %w", err), buildHint(arch)}
		}
		return file, nil, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", nil, fmt.Errorf("find own executable: %w", err)
	}
	return self, checkRunsOn(self, arch), nil
}

func missingProgramError(unsuitableErr, buildErr error, arch string) error {
	remedy := buildHint(arch) + "; or run lockpick in its source folder with go on PATH"
	return &MissingError{fmt.Errorf("clients can't run this lockpick: %w; building another one failed: %w", unsuitableErr, buildErr),
		cmp.Or(files.Remedy(errors.Join(unsuitableErr, buildErr), files.TempDirHint), remedy)}
}

func buildHint(arch string) string {
	return fmt.Sprintf("build one with CGO_ENABLED=0 GOOS=linux GOARCH=%s go build -o FILE ./cmd/lockpick and pass --client-binary FILE", arch)
}

// runGo runs the go tool with Linux as the target, without cgo. tmp is the directory for temporary files,
// or "" for the default directory.
func runGo(ctx context.Context, arch, tmp string, args ...string) error {
	tool, err := exec.LookPath("go")
	if err != nil {
		return errors.New("go is not on PATH")
	}
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if tmp != "" {
		cmd.Env = append(cmd.Env, "GOTMPDIR="+tmp)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		if message := engine.FirstLine(errors.New(string(out))); message != "" {
			return fmt.Errorf("go %s: %s", args[0], message)
		}
		return fmt.Errorf("go %s: %w", args[0], err)
	}
	return nil
}

// elfMachines maps GOARCH values to ELF machines.
var elfMachines = map[string]elf.Machine{
	"386": elf.EM_386, "amd64": elf.EM_X86_64, "arm": elf.EM_ARM, "arm64": elf.EM_AARCH64, "loong64": elf.EM_LOONGARCH,
	"ppc64le": elf.EM_PPC64, "riscv64": elf.EM_RISCV, "s390x": elf.EM_S390,
}

// checkRunsOn returns an error if a program cannot run in a container of an architecture, not even with
// this machine's libraries.
func checkRunsOn(file, arch string) error {
	text, err := files.Open(file, maxProgramSize)
	if err != nil {
		return err
	}
	defer text.Close()
	f, err := elf.NewFile(text)
	if err != nil {
		return fmt.Errorf("%s is not a Linux program: %w", file, err)
	}
	if want := elfMachines[arch]; f.Machine != want {
		return fmt.Errorf("%s is for %v, but the engine's containers are %s", file, f.Machine, arch)
	}
	return (&image{files: map[string][]byte{}}).add(file, clientPath)
}

// checkStatic is like checkRunsOn, but requires a static program. A program that may come from another
// machine cannot use this machine's libraries.
func checkStatic(file, arch string) error {
	if err := checkRunsOn(file, arch); err != nil {
		return err
	}
	f, err := elf.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if loader, err := loaderOf(f); loader != "" || err != nil {
		return errors.Join(fmt.Errorf("%s is not statically linked", file), err)
	}
	return nil
}
