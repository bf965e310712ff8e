package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/apply"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/manifest"
	"github.com/parley-mesh/parley/internal/parley"
)

// applyFlags say what to apply and how.
type applyFlags struct {
	files         []string
	set, schema   string
	dryRun, prune bool
	exitCode      bool
	timeout       time.Duration
}

func applyCommand(p *program) *cobra.Command {
	var f applyFlags
	cmd := &cobra.Command{
		Use: "apply -f FILE|DIR", Short: "Make the mesh hold what documents declare",
		Long: `Read documents (kinds Owner, Principal, Agent, Credential, Limits; YAML or JSON,
several in a file), show every difference to the mesh, and carry all of it out in one
transaction, or nothing. A directory is read with everything below it. Applied again,
the same documents change nothing.

What is declared no more stays, unless --prune says otherwise; that removes only what
the same set of documents has created. A Credential refers to its secret (secretRef:
file or env), which is read here.`,
		Example: `  parley apply -f mesh/ --dry-run
  parley apply -f mesh/ --prune
  parley apply -f team-a.yaml --set team-a
  parley apply -f mesh/ --dry-run --exit-code
  parley apply --schema Agent`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.schema != "" {
				return p.printSchema(f.schema)
			}
			if len(f.files) == 0 {
				return usagef("say what to apply: -f FILE or -f DIR; see %s --help", cmd.CommandPath())
			}
			if f.exitCode && !f.dryRun {
				return usagef("--exit-code tells whether something differs, and goes with --dry-run")
			}
			return p.apply(cmd.Context(), &f)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.files, "file", "f", nil, "file or directory of documents, - for the input (repeatable)")
	flags.StringVar(&f.set, "set", manifest.DefaultSet, "name of these documents as one whole: what another set has created is not touched")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show the plan and change nothing")
	flags.BoolVar(&f.prune, "prune", false, "remove what this set has created and declares no more")
	flags.BoolVar(&f.exitCode, "exit-code", false, "with --dry-run: exit with 1 where something differs")
	flags.StringVar(&f.schema, "schema", "", "print the JSON Schema of the documents of a kind, and do nothing else")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long it may take, with the looks at agents")
	cmd.MarkFlagsMutuallyExclusive("schema", "file")
	return cmd
}

func (p *program) printSchema(name string) error {
	kind, err := manifest.ParseKind(name)
	if err != nil {
		return usagef("--schema: %w", err)
	}
	return p.print("%s", manifest.Schema(kind))
}

// differs is how a dry run with --exit-code ends that found differences.
type differs struct{ summary string }

// Error tells how many changes there would be; each was shown before.
func (d differs) Error() string { return "the mesh is not as declared: " + d.summary }

func (p *program) apply(ctx context.Context, f *applyFlags) error {
	ctx, cancel := within(ctx, f.timeout)
	defer cancel()
	docs, err := p.readDocuments(ctx, f.files)
	if err != nil {
		return err
	}
	req := control.ApplyRequest{Set: f.set, Prune: f.prune, DryRun: f.dryRun, Documents: make([]json.RawMessage, len(docs))}
	for i, d := range docs {
		if req.Documents[i], err = json.Marshal(d.Document); err != nil {
			return fmt.Errorf("write %s as JSON: %w", d.ID(), err)
		}
		if d.Secret == "" && d.Certificate == nil {
			continue
		}
		secret := control.DocumentSecret{Document: i, Secret: d.Secret}
		if x := d.Certificate; x != nil {
			secret.Certificate = &control.NewCertificate{Chain: x.Chain, Key: x.Key, CA: x.CA}
		}
		req.Secrets = append(req.Secrets, secret)
	}
	c, err := p.client()
	if err != nil {
		return err
	}
	defer c.Close()
	plan, err := c.Apply(ctx, req)
	if err != nil {
		return placed(err, docs)
	}
	if err := p.showPlan(&plan, f.dryRun); err != nil {
		return err
	}
	if f.exitCode && len(plan.Changes) > 0 {
		return differs{plan.Summary()}
	}
	return nil
}

// placed turns the paths of an error into places in the files.
func placed(err error, docs []apply.Input) error {
	e, ok := errors.AsType[*parley.Error](err)
	if !ok {
		return err
	}
	told := *e
	told.Fields = make([]parley.Field, len(e.Fields))
	for i, f := range e.Fields {
		if rest, isDocument := strings.CutPrefix(f.Path, "/documents/"); isDocument {
			index, pointer, _ := strings.Cut(rest, "/")
			if n, err := strconv.Atoi(index); err == nil && n >= 0 && n < len(docs) {
				f.Path = docs[n].Place("/" + pointer).String()
				if pointer == "" {
					f.Path = docs[n].Place("").String()
				}
			}
		}
		told.Fields[i] = f
	}
	return &told
}

// showPlan prints what differs and what was done about it.
func (p *program) showPlan(plan *apply.Plan, dryRun bool) error {
	if p.json() {
		return p.document(plan)
	}
	style := p.styleOf(p.Out)
	for _, c := range plan.Changes {
		mark := map[apply.Action]string{apply.Create: style.good("+"), apply.Update: "~", apply.Remove: style.bad("-")}[c.Action]
		if err := p.print("%s %s %s\n", mark, strings.ToLower(string(c.Kind)), cleanLine(c.Name)); err != nil {
			return err
		}
		for _, f := range c.Fields {
			if err := p.print("    %s\n", cleanLine(fieldText(c.Action, f))); err != nil {
				return err
			}
		}
		for _, note := range c.Notes {
			if err := p.print("    ! %s\n", cleanLine(note)); err != nil {
				return err
			}
		}
	}
	for _, o := range plan.Orphans {
		p.remark("%s %s: %s", strings.ToLower(string(o.Kind)), o.Name, o.Why)
	}
	if p.flags.quiet {
		return nil
	}
	switch {
	case len(plan.Changes) == 0:
		return p.print("nothing to do: %d as declared\n", plan.Unchanged)
	case dryRun:
		return p.print("plan: %s; nothing was changed\n", plan.Summary())
	}
	return p.print("applied: %s\n", plan.Summary())
}

// fieldText is one difference in a line.
func fieldText(action apply.Action, f apply.FieldChange) string {
	show := func(s string) string {
		if s == "" {
			return "(none)"
		}
		return s
	}
	if action == apply.Create {
		return f.Path + ": " + show(f.After)
	}
	return f.Path + ": " + show(f.Before) + " → " + show(f.After)
}
