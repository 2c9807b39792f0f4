//go:build linux

// Package enginetest is what tests of engines share: where the docker command has its
// files, certificates, and what must not be read.
package enginetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// NoEngineSet lets the environment name no engine, and returns the directory of the
// docker command's configuration, which is empty.
func NoEngineSet(t testing.TB) (config string) {
	t.Helper()
	for _, name := range []string{"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_API_VERSION", "XDG_RUNTIME_DIR"} {
		t.Setenv(name, "")
	}
	config = t.TempDir()
	t.Setenv("DOCKER_CONFIG", config)
	return config
}

// WriteFile writes a file, and the folders that it is in.
func WriteFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// WriteContext stores a context, and returns where its certificates are to be.
func WriteContext(t testing.TB, config, name, meta string) (certs string) {
	t.Helper()
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	WriteFile(t, filepath.Join(config, "contexts", "meta", id, "meta.json"), meta)
	return filepath.Join(config, "contexts", "tls", id, "docker")
}

// ContextAt is what a context is stored as.
func ContextAt(name, host string) string {
	return fmt.Sprintf(`{"Name":%q,"Metadata":{},"Endpoints":{"docker":{"Host":%q,"SkipTLSVerify":false}}}`, name, host)
}

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes one.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{cert: &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(time.Hour)}}
	a.key = newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Write writes ca.pem, and cert.pem and key.pem of somebody who is on the loopback.
func (a *Authority) Write(t testing.TB, dir, name string) {
	t.Helper()
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		name, sort string
		der        []byte
	}{{"ca.pem", "CERTIFICATE", a.cert.Raw}, {"cert.pem", "CERTIFICATE", der}, {"key.pem", "EC PRIVATE KEY", secret}} {
		WriteFile(t, filepath.Join(dir, f.name), string(pem.EncodeToMemory(&pem.Block{Type: f.sort, Bytes: f.der})))
	}
}

// RefusesHostileFiles plants a pipe, a device and something huge in the places of files, and
// sees that each of the readers of that folder refuses them at once.
func RefusesHostileFiles(t testing.TB, names []string, readers func(dir string) map[string]func() error) {
	t.Helper()
	for name, plant := range map[string]func(path string) error{
		"a pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a device": func(path string) error { return os.Symlink("/dev/zero", path) },
		"6 GB": func(path string) error {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				return err
			}
			return os.Truncate(path, 6<<30)
		},
	} {
		dir := t.TempDir()
		for _, file := range names {
			if err := plant(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
		}
		for what, read := range readers(dir) {
			ended := make(chan error, 1)
			go func() { ended <- read() }()
			select {
			case err := <-ended:
				if err == nil {
					t.Errorf("%s is taken for %s", name, what)
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("%s as %s is waited for", name, what)
			}
		}
	}
}
