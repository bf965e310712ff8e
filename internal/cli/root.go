package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/parley"
)

// program is what every verb works with: its streams and the global flags.
type program struct {
	Streams
	flags  globals
	now    func() time.Time
	lines  *bufio.Scanner // of In, made when something is asked
	hint   string         // why no key was sent, where one was expected
	asked  string         // whose name a management verb asked in, where that may be a slip
	failed string         // id of the call that failed and is on record
}

// globals are the flags that every verb has.
type globals struct {
	server  string
	data    string
	keyFile string
	caFile  string
	cert    string
	certKey string
	output  output
	quiet   bool
}

// Main runs one command line and gives its exit code. The error is printed to
// the error stream; ctx ends a command that waits.
func Main(ctx context.Context, args []string, s Streams) int {
	p := &program{Streams: s, now: time.Now}
	root := newRoot(p)
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	p.fail(ctx, err)
	return exitCode(err)
}

// fail prints the error that ends a command, and what to do about it.
func (p *program) fail(ctx context.Context, err error) {
	if p.json() {
		p.failJSON(ctx, err)
		return
	}
	text, kind := message(ctx, err), kindOf(err)
	if p.asked != "" && kind == parley.Denied {
		text += "\n  " + cleanLine(p.asked)
	}
	if p.hint != "" && kind == parley.Unauthorized {
		text += "\n  " + cleanLine(p.hint)
	}
	if p.failed != "" && !p.flags.quiet {
		text += "\n  more: parley calls show " + cleanLine(p.failed)
	}
	fmt.Fprintln(p.Err, "parley: "+text)
}

func newRoot(p *program) *cobra.Command {
	root := &cobra.Command{
		Use:   "parley",
		Short: "A governed mesh for agents: one door, every call identified, recorded and measured",
		Long: `Parley stands between agents and whoever calls them: one door at which every
call is identified, recorded and measured. Agents and callers stay as they are.

The verbs below talk to the mesh on this machine through its own socket, or to
the one that --server names.`,
		Example: `  parley serve
  parley agent add echo http://127.0.0.1:9000
  parley send echo "hello"
  parley calls list`,
		SilenceErrors: true,
		SilenceUsage:  true,
		// What stands before the verb is the program's own: --data there is the
		// data directory, also with verbs that have a --data of their own.
		TraverseChildren: true,
		Version:          Version(),
	}
	root.SetVersionTemplate(thisVersion().String() + "\n")
	parent(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return flagError(cmd, err)
	})
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := cmd.ValidateFlagGroups(); err != nil {
			return usagef("%s; see %s --help", flagGroup(err), cmd.CommandPath())
		}
		return p.flags.output.check()
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	flags := root.PersistentFlags()
	flags.StringVar(&p.flags.server, "server", "", "address of the mesh, such as https://mesh.example.com (or PARLEY_SERVER); default: the socket in --data")
	flags.StringVar(&p.flags.caFile, "ca-file", "", "PEM file with the certificates of authorities that an https --server is trusted by, beside the system's (or PARLEY_CA_FILE)")
	flags.StringVar(&p.flags.cert, "cert", "", "PEM file with the client certificate, and its chain, to show an https --server (or PARLEY_CERT)")
	flags.StringVar(&p.flags.certKey, "cert-key", "", "PEM file with the private key of --cert (or PARLEY_CERT_KEY)")
	flags.StringVar(&p.flags.data, "data", "", "data directory of the mesh on this machine (or PARLEY_DATA); default: "+defaultData)
	flags.StringVar(&p.flags.keyFile, "key-file", "", "file with the API key to use (or PARLEY_KEY_FILE; PARLEY_KEY is the key itself)")
	p.flags.output = outputTable
	flags.Var(&p.flags.output, "output", "table, or json: one document, or one line per item for lists and streams")
	flags.BoolVar(&p.flags.quiet, "quiet", false, "print results only, no remarks and no progress")
	root.AddCommand(
		serveCommand(p), configCommand(p), applyCommand(p), loginCommand(p), logoutCommand(p), whoamiCommand(p),
		ownerCommand(p), principalCommand(p), keyCommand(p), agentCommand(p), cardCommand(p),
		sendCommand(p), taskCommand(p), callsCommand(p), pushCommand(p), eventsCommand(p), storeCommand(p), doctorCommand(p),
		backupCommand(p), restoreCommand(p),
		versionCommand(p),
	)
	root.InitDefaultHelpFlag()
	root.InitDefaultVersionFlag()
	mergeFlags(root)
	return root
}

// mergeFlags makes each command know the flags it inherits before a command
// line is read: cobra finds the verb behind flags only where it knows which of
// them take a value.
func mergeFlags(cmd *cobra.Command) {
	cmd.InheritedFlags()
	for _, child := range cmd.Commands() {
		mergeFlags(child)
	}
}

// defaultData is the data directory as help texts write it.
const defaultData = "$XDG_DATA_HOME/parley"

// parent makes cmd a verb that only has verbs below it: alone it prints its
// help, and an unknown word is refused with the nearest known.
func parent(cmd *cobra.Command, children ...*cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		advice := ""
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			advice = fmt.Sprintf("; did you mean %q?", near[0])
		}
		return usagef("%q is no verb of %s%s; see %s --help", args[0], cmd.CommandPath(), advice, cmd.CommandPath())
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(children...)
	return cmd
}

// arguments wants exactly the named arguments.
func arguments(names ...string) cobra.PositionalArgs { return argumentsBetween(len(names), names...) }

// argumentsBetween wants the named arguments, of which the last may be left
// out down to least.
func argumentsBetween(least int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usagef("%s is missing: %s; see %s --help", names[len(args)], cmd.UseLine(), cmd.CommandPath())
		case len(args) > len(names):
			return usagef("%q is one argument too many (put quotes around text with spaces): %s; see %s --help", args[len(names)], cmd.UseLine(), cmd.CommandPath())
		}
		return nil
	}
}

// flagError words what is wrong with a flag, without the words of the parsers
// below.
func flagError(cmd *cobra.Command, err error) error {
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		wants := map[string]string{
			"int": "a whole number", "int32": "a whole number", "int64": "a whole number",
			"duration": "a duration such as 30s or 5m", "bool": "true or false",
		}[e.GetFlag().Value.Type()]
		own, said := errors.AsType[usageError](err)
		if said {
			return usagef("--%s: %w; see %s --help", e.GetFlag().Name, own, cmd.CommandPath())
		}
		if wants != "" {
			return usagef("--%s %q is not %s; see %s --help", e.GetFlag().Name, e.GetValue(), wants, cmd.CommandPath())
		}
	}
	return usagef("%w; see %s --help", err, cmd.CommandPath())
}

// groupErrors are the forms in which cobra tells of flags that do not go
// together; it gives no type to tell them by.
var groupErrors = []struct {
	form *regexp.Regexp
	say  func(group, named []string) string
}{
	{regexp.MustCompile(`^if any flags in the group \[(.+)\] are set none of the others can be; \[(.+)\] were all set$`), func(_, named []string) string {
		return strings.Join(named, " and ") + " exclude each other: give one"
	}},
	{regexp.MustCompile(`^at least one of the flags in the group \[(.+)\] is required$()`), func(group, _ []string) string {
		return "one of these is missing: " + strings.Join(group, ", ")
	}},
	{regexp.MustCompile(`^if any flags in the group \[(.+)\] are set they must all be set; missing \[(.+)\]$`), func(group, named []string) string {
		return strings.Join(group, " and ") + " belong together: " + strings.Join(named, ", ") + " is missing"
	}},
}

// flagGroup words what is wrong with flags that stand together or exclude each
// other.
func flagGroup(err error) string {
	for _, e := range groupErrors {
		if found := e.form.FindStringSubmatch(err.Error()); found != nil {
			return e.say(dashed(found[1]), dashed(found[2]))
		}
	}
	return err.Error()
}

// dashed are names of flags as they are written.
func dashed(names string) []string {
	flags := strings.Fields(names)
	for i, name := range flags {
		flags[i] = "--" + name
	}
	return flags
}

// usageError marks an error of the command line itself.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// variable is an environment variable's value; empty counts as unset.
func (p *program) variable(name string) string {
	for i := len(p.Env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(p.Env[i], name+"="); ok {
			return value
		}
	}
	return ""
}

// dataDir is the data directory of the mesh on this machine.
func (p *program) dataDir() (string, error) {
	if dir := cmp.Or(p.flags.data, p.variable("PARLEY_DATA")); dir != "" {
		return dir, nil
	}
	dir, err := config.DefaultData(func(name string) (string, bool) { v := p.variable(name); return v, v != "" })
	if err != nil {
		return "", usagef("no data directory is known (%w): set --data, or --server to use a mesh elsewhere", err)
	}
	return dir, nil
}

// within bounds ctx by a verb's --timeout; zero means no bound.
func within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}
