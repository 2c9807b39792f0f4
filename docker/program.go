package docker

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"lockpick/harness/files"
)

// insideClient is where a client's container has its program, which is the whole image.
const insideClient = "/bin/lockpick"

// clientPackage is what the go tool builds for containers where this very program
// can't run in one.
const clientPackage = "lockpick/cmd/lockpick"

// program is what clients run, read or built once.
type program struct {
	mu   sync.Mutex
	text []byte
}

// program gets a lockpick that runs by itself on an architecture: the one that the user
// names, this one, or what the go tool makes of the source.
func (b *Backend) program(ctx context.Context, arch string, say func(string)) ([]byte, error) {
	b.clients.mu.Lock()
	defer b.clients.mu.Unlock()
	if b.clients.text != nil {
		return b.clients.text, nil
	}
	file, unfit, err := b.own(arch)
	if err != nil {
		return nil, err
	}
	if unfit != nil {
		dir, err := os.MkdirTemp("", "lockpick-client-")
		if err != nil {
			return nil, fmt.Errorf("build the clients' program: %w", err)
		}
		defer os.RemoveAll(dir)
		file = filepath.Join(dir, "lockpick")
		say(fmt.Sprintf("building lockpick for clients: %v", unfit))
		if err := askGo(ctx, arch, "build", "-o", file, clientPackage); err != nil {
			return nil, lackProgram(unfit, err, arch)
		}
	}
	b.clients.text, err = files.Read(file, mostProgram)
	return b.clients.text, err
}

// lacksProgram says why there is no program for clients and can't be built one, as far
// as that is seen without building it.
func (b *Backend) lacksProgram(ctx context.Context, arch string) error {
	_, unfit, err := b.own(arch)
	if err != nil || unfit == nil {
		return err
	}
	if err := askGo(ctx, arch, "list", clientPackage); err != nil {
		return lackProgram(unfit, err, arch)
	}
	return nil
}

// own is the lockpick that the user names, which has to fit, or else this one, and why
// that does not.
func (b *Backend) own(arch string) (file string, unfit, err error) {
	if file := b.cfg.ClientBinary; file != "" {
		if err := standsAlone(file, arch); err != nil {
			return "", nil, &Lack{fmt.Errorf("no client can run --client-binary: %w", err), byHand(arch)}
		}
		return file, nil, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", nil, fmt.Errorf("find own executable: %w", err)
	}
	return self, standsAlone(self, arch), nil
}

func lackProgram(unfit, unbuilt error, arch string) error {
	return &Lack{fmt.Errorf("no client can run this lockpick: %w; and the go tool makes no other: %w", unfit, unbuilt),
		byHand(arch) + "; or run lockpick in the folder of its source, with go on PATH"}
}

func byHand(arch string) string {
	return fmt.Sprintf("CGO_ENABLED=0 GOOS=linux GOARCH=%s go build -o FILE ./cmd/lockpick, and --client-binary FILE", arch)
}

// askGo has the go tool do something for Linux on an architecture, without C.
func askGo(ctx context.Context, arch string, args ...string) error {
	tool, err := exec.LookPath("go")
	if err != nil {
		return errors.New("go is not on PATH")
	}
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		if said := firstLine(errors.New(string(out))); said != "" {
			return fmt.Errorf("go %s: %s", args[0], said)
		}
		return fmt.Errorf("go %s: %w", args[0], err)
	}
	return nil
}

// mostProgram bounds what is taken for a program: ten times this one.
const mostProgram = 512 << 20

// machines is how programs name the architectures of Go.
var machines = map[string]elf.Machine{
	"386": elf.EM_386, "amd64": elf.EM_X86_64, "arm": elf.EM_ARM, "arm64": elf.EM_AARCH64, "loong64": elf.EM_LOONGARCH,
	"ppc64le": elf.EM_PPC64, "riscv64": elf.EM_RISCV, "s390x": elf.EM_S390,
}

// standsAlone says why a program can't be all that is in a container of an
// architecture; nil: it can.
func standsAlone(file, arch string) error {
	text, err := files.Open(file, mostProgram)
	if err != nil {
		return err
	}
	defer text.Close()
	f, err := elf.NewFile(text)
	if err != nil {
		return fmt.Errorf("%s is no program of Linux: %w", file, err)
	}
	if want := machines[arch]; f.Machine != want {
		return fmt.Errorf("%s is for %v, and the engine's containers are %s", file, f.Machine, arch)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s needs libraries, it is not linked statically", file)
		}
	}
	return nil
}
