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
)

const (
	// maxDocumentFiles is how many files one command reads.
	maxDocumentFiles = 2000
	// maxSecretFile is the largest file that a secretRef may name, in bytes.
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
		secret, err := p.referred(d.Credential.SecretRef, dirs[d])
		if err != nil {
			problems = append(problems, manifest.Problem{At: d.Place("/spec/secretRef"), Problem: err.Error()})
		}
		inputs[i].Secret = secret
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

// referred reads the secret that a document refers to. One line end behind it
// is not part of it.
func (p *program) referred(ref *manifest.SecretRef, dir string) (string, error) {
	if ref.Env != "" {
		if secret := p.variable(ref.Env); secret != "" {
			return secret, nil
		}
		return "", fmt.Errorf("the environment variable %s is not set: set it to the secret", ref.Env)
	}
	path := ref.File
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no file", path)
	}
	raw, err := readFile(path, maxSecretFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the file %s is not there: put the secret into it", path)
	}
	if err != nil {
		return "", err
	}
	secret := strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r")
	if secret == "" {
		return "", fmt.Errorf("the file %s is empty: put the secret into it", path)
	}
	return secret, nil
}
