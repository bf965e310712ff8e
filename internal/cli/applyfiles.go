package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-mesh/parley/internal/apply"
	"github.com/parley-mesh/parley/internal/manifest"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

const (
	// maxDocumentFiles is how many files one command reads.
	maxDocumentFiles = 2000
	// maxSecretFile is the largest file that a secretRef may name, in bytes; a
	// PEM file may have maxPEM.
	maxSecretFile = 8 << 10
	// stdinName is what messages call the input.
	stdinName = "(input)"
)

// readDocuments reads every document and the secrets they refer to. Its error
// lists everything that is wrong, each with its place.
func (p *program) readDocuments(ctx context.Context, sources []string) ([]apply.Input, error) {
	files, err := documentFiles(sources)
	if err != nil {
		return nil, err
	}
	var docs []*manifest.Document
	var problems []manifest.Problem
	dirs := map[*manifest.Document]string{}
	for _, file := range files {
		raw, name, err := p.readDocumentFile(ctx, file)
		if err != nil {
			return nil, err
		}
		found, wrong := manifest.Decode(name, raw)
		problems = append(problems, wrong...)
		for _, d := range found {
			dirs[d] = filepath.Dir(file)
		}
		docs = append(docs, found...)
	}
	problems = append(problems, manifest.CheckTogether(docs)...)
	inputs := make([]apply.Input, len(docs))
	for i, d := range docs {
		inputs[i].Document = d
		if d.Credential == nil {
			continue
		}
		problems = append(problems, p.resolve(&inputs[i], dirs[d])...)
	}
	switch {
	case len(problems) > 0:
		return nil, refusedDocuments(problems)
	case len(docs) == 0:
		return nil, parley.E("cli.apply", parley.Invalid, "", fmt.Sprintf("there is no document in %s: nothing was changed", strings.Join(sources, ", ")), nil)
	}
	return inputs, nil
}

func refusedDocuments(problems []manifest.Problem) error {
	e := parley.E("cli.apply", parley.Invalid, "", "the documents are not valid, and nothing was changed", nil)
	for _, problem := range problems {
		e.Fields = append(e.Fields, problem.Field())
	}
	return e
}

// documentFiles lists the files to read: those named, and in directories all
// that end in .yaml, .yml or .json, in order of their paths. Hidden ones are
// left out.
func documentFiles(sources []string) (files []string, _ error) {
	for _, source := range sources {
		if source == "-" {
			files = append(files, source)
			continue
		}
		err := filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case path != source && strings.HasPrefix(entry.Name(), "."):
				if entry.IsDir() {
					return filepath.SkipDir
				}
			case !entry.IsDir() && (path == source || slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path))):
				files = append(files, path)
			}
			if len(files) > maxDocumentFiles {
				return fmt.Errorf("more than %d files below %s: is it the right directory?", maxDocumentFiles, source)
			}
			return nil
		})
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, usagef("-f %s is not there", source)
		case err != nil:
			return nil, usagef("-f: %w", err)
		}
	}
	return files, nil
}

func (p *program) readDocumentFile(ctx context.Context, file string) (raw []byte, name string, err error) {
	if file != "-" {
		if raw, err = readFile(file, manifest.MaxFile); err != nil {
			return nil, "", parley.E("cli.apply", parley.Invalid, "", err.Error(), err)
		}
		return raw, file, nil
	}
	text, err := p.await(ctx, func() (string, error) {
		raw, err := readAll(p.In, stdinName, manifest.MaxFile)
		return string(raw), err
	})
	return []byte(text), stdinName, err
}

// resolve reads what a Credential refers to.
func (p *program) resolve(in *apply.Input, dir string) (problems []manifest.Problem) {
	if in.Credential.Certificate != nil {
		in.Certificate = &registry.ClientCertificate{}
	}
	for _, r := range in.Credential.Refs() {
		text, err := p.referred(r, dir)
		if err != nil {
			problems = append(problems, manifest.Problem{At: in.Place(r.Pointer), Problem: err.Error()})
			continue
		}
		switch r.Pointer {
		case manifest.PointerSecret:
			in.Secret = text
		case manifest.PointerChain:
			in.Certificate.Chain = text
		case manifest.PointerKey:
			in.Certificate.Key = text
		case manifest.PointerCA:
			in.Certificate.CA = text
		}
	}
	return problems
}

// referred reads the text that a document refers to. One line end behind it is
// not part of it, but of a PEM text.
func (p *program) referred(r manifest.Ref, dir string) (string, error) {
	what, most := "the secret", int64(maxSecretFile)
	if r.PEM {
		what, most = "the PEM text", maxPEM
	}
	if env := r.Ref.Env; env != "" {
		if text := p.variable(env); text != "" {
			return text, nil
		}
		return "", fmt.Errorf("the environment variable %s is not set: set it to %s", env, what)
	}
	path := r.Ref.File
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no file", path)
	}
	raw, err := readFile(path, most)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the file %s is not there: put %s into it", path, what)
	}
	if err != nil {
		return "", err
	}
	text := string(raw)
	if !r.PEM {
		text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	}
	if text == "" {
		return "", fmt.Errorf("the file %s is empty: put %s into it", path, what)
	}
	return text, nil
}
