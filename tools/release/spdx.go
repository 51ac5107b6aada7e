package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// spdxDocument is a list of what a program consists of, in SPDX 2.3.
type spdxDocument struct {
	Version           string         `json:"spdxVersion"`
	DataLicense       string         `json:"dataLicense"`
	ID                string         `json:"SPDXID"`
	Name              string         `json:"name"`
	Namespace         string         `json:"documentNamespace"`
	CreationInfo      spdxCreation   `json:"creationInfo"`
	Packages          []spdxPackage  `json:"packages"`
	Relationships     []spdxRelation `json:"relationships"`
	DocumentDescribes []string       `json:"documentDescribes"`
}

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	Name             string         `json:"name"`
	ID               string         `json:"SPDXID"`
	Version          string         `json:"versionInfo"`
	DownloadLocation string         `json:"downloadLocation"`
	FilesAnalyzed    bool           `json:"filesAnalyzed"`
	LicenseConcluded string         `json:"licenseConcluded"`
	LicenseDeclared  string         `json:"licenseDeclared"`
	CopyrightText    string         `json:"copyrightText"`
	FileName         string         `json:"packageFileName,omitempty"`
	Purpose          string         `json:"primaryPackagePurpose,omitempty"`
	Comment          string         `json:"comment,omitempty"`
	Checksums        []spdxChecksum `json:"checksums,omitempty"`
	ExternalRefs     []spdxRef      `json:"externalRefs,omitempty"`
}

type spdxChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelation struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

// unknown is SPDX's word for what nobody has looked at.
const unknown = "NOASSERTION"

// spdx writes what the binaries of a program consist of, as their linker noted it.
func (r *release) spdx(p *program) error {
	root := "SPDXRef-" + p.name
	d := spdxDocument{
		Version: "SPDX-2.3", DataLicense: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: p.name + "-" + r.version,
		CreationInfo:      spdxCreation{r.date.Format("2006-01-02T15:04:05Z"), []string{"Tool: stint-release-" + r.version}},
		DocumentDescribes: []string{root},
		Packages: []spdxPackage{{
			Name: p.name, ID: root, Version: r.version, DownloadLocation: unknown,
			LicenseConcluded: "Apache-2.0", LicenseDeclared: "Apache-2.0", CopyrightText: unknown,
		}},
	}
	relate := func(from, kind, to string) {
		d.Relationships = append(d.Relationships, spdxRelation{from, kind, to})
	}
	relate(d.ID, "DESCRIBES", root)
	links := append([]link{{Path: "std", Version: strings.TrimPrefix(runtime.Version(), "go")}}, p.manual.links...)
	for i, l := range links {
		id := fmt.Sprintf("SPDXRef-module-%d", i)
		pkg := spdxPackage{
			Name: l.Path, ID: id, Version: l.Version, DownloadLocation: unknown, LicenseConcluded: unknown, LicenseDeclared: unknown, CopyrightText: unknown,
			ExternalRefs: []spdxRef{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + l.Path + "@" + l.Version}},
		}
		if l.Sum != "" {
			pkg.Comment = "go.sum: " + l.Sum
		}
		d.Packages = append(d.Packages, pkg)
		relate(root, "STATIC_LINK", id)
	}
	for i, s := range r.systems {
		sum, err := sumOf(r.binary(p, s))
		if err != nil {
			return err
		}
		id := fmt.Sprintf("SPDXRef-binary-%d", i)
		d.Packages = append(d.Packages, spdxPackage{
			Name: p.name + " for " + s.String(), ID: id, Version: r.version, FileName: filepath.Base(r.binary(p, s)), Purpose: "APPLICATION",
			DownloadLocation: unknown, LicenseConcluded: "Apache-2.0", LicenseDeclared: "Apache-2.0", CopyrightText: unknown,
			Checksums: []spdxChecksum{{"SHA256", hex.EncodeToString(sum)}},
		})
		relate(id, "VARIANT_OF", root)
	}
	packages, err := json.Marshal(d.Packages)
	if err != nil {
		return err
	}
	d.Namespace = fmt.Sprintf("https://spdx.org/spdxdocs/%s-%s-%x", p.name, r.version, sha256.Sum256(packages))
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetIndent("", "  ")
	if err := out.Encode(d); err != nil {
		return err
	}
	return os.WriteFile(r.file(p.name+"_"+r.version+".spdx.json"), b.Bytes(), 0o644)
}
