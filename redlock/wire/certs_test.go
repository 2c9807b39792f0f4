package wire_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

type authority struct {
	*testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	dir  string
}

func newAuthority(t *testing.T, name string) *authority {
	a := &authority{T: t, dir: t.TempDir()}
	a.key = a.newKey()
	a.cert = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.write("ca", a.sign(a.cert, &a.key.PublicKey), a.key)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.Fatal(err)
	}
	return key
}

func (a *authority) sign(cert *x509.Certificate, key *ecdsa.PublicKey) []byte {
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, key, a.key)
	if err != nil {
		a.Fatal(err)
	}
	return der
}

// issue issues a certificate for 127.0.0.1. It is valid for d, starting an hour ago.
func (a *authority) issue(name string, d time.Duration) tls.Certificate {
	key, from := a.newKey(), time.Now().Add(-time.Hour)
	der := a.sign(&x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: from.Add(d),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, &key.PublicKey)
	a.write(name, der, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// write writes a certificate and its key to files that a server can read.
func (a *authority) write(name string, der []byte, key *ecdsa.PrivateKey) {
	privateKey, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{a.file(name + ".crt"): {Type: "CERTIFICATE", Bytes: der}, a.file(name + ".key"): {Type: "PRIVATE KEY", Bytes: privateKey}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			a.Fatal(err)
		}
	}
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// clientConfig returns the configuration for a client that trusts the authority and presents the
// given certificates.
func (a *authority) clientConfig(certs ...tls.Certificate) *tls.Config {
	pool := x509.NewCertPool()
	cert, err := x509.ParseCertificate(a.sign(a.cert, &a.key.PublicKey))
	if err != nil {
		a.Fatal(err)
	}
	pool.AddCert(cert)
	return &tls.Config{RootCAs: pool, Certificates: certs}
}
