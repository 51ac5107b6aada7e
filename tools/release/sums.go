package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/blake2b"
)

// sums writes SHA256SUMS of all files of the release, and its signature if there is a key.
func (r *release) sums() error {
	var b bytes.Buffer
	err := filepath.WalkDir(r.out, func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		sum, err := sumOf(file)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(r.out, file)
		fmt.Fprintf(&b, "%x  %s\n", sum, filepath.ToSlash(rel))
		return err
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.file("SHA256SUMS"), b.Bytes(), 0o644); err != nil {
		return err
	}
	if r.signer == nil {
		r.progress("SHA256SUMS is not signed: no key was given")
		return nil
	}
	return os.WriteFile(r.file("SHA256SUMS.minisig"), r.signer.sign(b.Bytes(), "stint "+r.version+" SHA256SUMS"), 0o644)
}

func sumOf(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was read
	h := sha256.New()
	_, err = io.Copy(h, f)
	return h.Sum(nil), err
}

// signingKey is a secret key of minisign.
type signingKey struct {
	number [8]byte
	secret ed25519.PrivateKey
}

// secretKey is the content of minisign's file of a secret key.
type secretKey struct {
	Algorithm, Derivation, Checksum [2]byte
	Salt                            [32]byte
	Operations, Memory              uint64
	Number                          [8]byte
	Secret                          [64]byte
	Sum                             [32]byte
}

// readKey reads a secret key that minisign -G -W made.
func readKey(file string) (*signingKey, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	raw, err := base64.StdEncoding.DecodeString(lines[len(lines)-1])
	var k secretKey
	if err != nil || len(lines) != 2 || binary.Read(bytes.NewReader(raw), binary.LittleEndian, &k) != nil || string(k.Algorithm[:]) != "Ed" {
		return nil, errors.New("no secret key of minisign: make one with minisign -G -W")
	}
	if k.Derivation != [2]byte{} {
		return nil, errors.New("the key has a password: a release is signed by a key without one (minisign -G -W, or minisign -C -W)")
	}
	secret := ed25519.PrivateKey(k.Secret[:])
	if !secret.Equal(ed25519.NewKeyFromSeed(k.Secret[:ed25519.SeedSize])) {
		return nil, errors.New("the key is damaged: its two parts do not belong to each other")
	}
	return &signingKey{k.Number, secret}, nil
}

// sign returns the signature of data as minisign writes it: over a hash, with a comment that is
// signed too.
func (k *signingKey) sign(data []byte, comment string) []byte {
	hash := blake2b.Sum512(data)
	signature := ed25519.Sign(k.secret, hash[:])
	global := ed25519.Sign(k.secret, append(bytes.Clone(signature), comment...))
	all := append(append([]byte("ED"), k.number[:]...), signature...)
	return fmt.Appendf(nil, "untrusted comment: signature of a release of stint\n%s\ntrusted comment: %s\n%s\n",
		base64.StdEncoding.EncodeToString(all), comment, base64.StdEncoding.EncodeToString(global))
}
