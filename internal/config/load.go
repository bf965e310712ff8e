package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/parley-mesh/parley/internal/nearest"
)

// envPrefix begins the name of every environment variable that sets a key.
const envPrefix = "PARLEY_"

// clientVariables are read by the command line's client verbs and set no key.
var clientVariables = []string{"PARLEY_SERVER", "PARLEY_KEY", "PARLEY_KEY_FILE", "PARLEY_CA_FILE", "PARLEY_CONFIG"}

// Source is one of the places a value can come from.
type Source string

// The sources, weakest first.
const (
	FromDefault Source = "default"
	FromFile    Source = "file"
	FromEnv     Source = "environment"
	FromFlag    Source = "flag"
)

// Origin is where a value was written. The zero Origin is the default.
type Origin struct {
	Source Source
	Where  string // file:line, variable name or flag; empty for a default
}

// String returns the place as an operator would look for it.
func (o Origin) String() string {
	if o.Where == "" {
		return string(FromDefault)
	}
	return o.Where
}

// Error is one mistake in the configuration. Load joins all it finds; callers
// that want them singly use errors.As or unwrap the join.
type Error struct {
	Origin  Origin
	Key     string // empty where the whole source is at fault
	Problem string // what is wrong and what to write instead; never a secret
}

// Error returns "place: key: problem".
func (e *Error) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("%s: %s", e.Origin, e.Problem)
	}
	return fmt.Sprintf("%s: %s: %s", e.Origin, e.Key, e.Problem)
}

// Options says what Load reads. The zero value reads nothing: it checks the
// defaults.
type Options struct {
	File  string         // YAML file; empty: none
	Env   []string       // as os.Environ gives it
	Flags *pflag.FlagSet // prepared by AddFlags and parsed; nil: none
}

// AddFlags declares a flag for every key that has one. Their values are read
// by Load; their defaults are only for the help text.
func AddFlags(flags *pflag.FlagSet) {
	for _, k := range Default().keys() {
		if k.flag == "" {
			continue
		}
		usage := plain(k.doc) + " (" + k.path + ")"
		if l, ok := k.value.(listValue); ok {
			flags.StringArray(k.flag, l.elements(), usage+" Repeatable.")
		} else {
			flags.String(k.flag, k.value.text(), usage)
		}
	}
}

// plain takes the code marks of the reference page out of a text, because
// pflag reads backquotes as the name of the flag's value.
func plain(text string) string { return strings.ReplaceAll(text, "`", "") }

// Load builds the configuration from the default and the sources in opts and
// checks it. The error joins an *Error for each mistake found, in the order of
// sources and keys. No partial Config is returned.
func Load(opts Options) (*Config, error) {
	c := Default()
	c.origins = map[string]Origin{}
	l := &loader{config: c, keys: c.keys(), env: parseEnv(opts.Env)}
	if opts.File != "" {
		l.file(opts.File)
	}
	l.environment()
	if opts.Flags != nil {
		l.flags(opts.Flags)
	}
	l.dataFolder()
	l.problems = append(l.problems, c.validate()...)
	if err := l.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// loader collects values and mistakes while sources are read.
type loader struct {
	config   *Config
	keys     []key
	env      map[string]string
	problems []*Error
}

func (l *loader) err() error {
	errs := make([]error, len(l.problems))
	for i, problem := range l.problems {
		errs[i] = problem
	}
	return errors.Join(errs...)
}

func (l *loader) fail(origin Origin, key, format string, args ...any) {
	l.problems = append(l.problems, &Error{Origin: origin, Key: key, Problem: fmt.Sprintf(format, args...)})
}

func (l *loader) getenv(name string) (string, bool) {
	value, ok := l.env[name]
	return value, ok
}

// set gives one scalar to a key.
func (l *loader) set(k key, text, base string, origin Origin) {
	var err error
	if s, ok := k.value.(sourced); ok {
		err = s.setFrom(text, base, l.getenv)
	} else {
		err = k.value.set(text, base)
	}
	l.settle(k, origin, err)
}

// setList gives several elements to a key that holds a list.
func (l *loader) setList(k key, v listValue, elements []string, origin Origin) {
	l.settle(k, origin, v.setList(elements))
}

func (l *loader) settle(k key, origin Origin, err error) {
	if err != nil {
		l.fail(origin, k.path, "%s", err)
		return
	}
	l.config.origins[k.path] = origin
}

func parseEnv(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			env[name] = value
		}
	}
	return env
}

func envName(path string) string {
	return strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// environment reads PARLEY_ variables. An empty one counts as unset, as shells
// and compose files make them by accident. Unknown ones are not refused:
// orchestrators inject names such as PARLEY_PORT on their own. One that is
// nearly a key's name is reported as a notice, because it is likely a slip.
func (l *loader) environment() {
	var names []string
	known := map[string]bool{}
	for _, name := range clientVariables {
		known[name] = true
	}
	for _, k := range l.keys {
		names = append(names, strings.TrimPrefix(k.env(), envPrefix))
		known[k.env()] = true
		if value := l.env[k.env()]; value != "" {
			l.set(k, value, "", Origin{FromEnv, k.env()})
		}
	}
	var strangers []string
	for name := range l.env {
		if strings.HasPrefix(name, envPrefix) && !known[name] {
			strangers = append(strangers, name)
		}
	}
	slices.Sort(strangers)
	for _, name := range strangers {
		if near := nearest.Of(strings.TrimPrefix(name, envPrefix), names); near != "" {
			l.config.notices = append(l.config.notices,
				fmt.Sprintf("the environment variable %s sets nothing; did you mean %s%s?", name, envPrefix, near))
		}
	}
}

func (l *loader) flags(flags *pflag.FlagSet) {
	for _, k := range l.keys {
		flag := flags.Lookup(k.flag)
		if k.flag == "" || flag == nil || !flag.Changed {
			continue
		}
		origin := Origin{FromFlag, "--" + k.flag}
		if v, ok := k.value.(listValue); ok {
			elements, err := flags.GetStringArray(k.flag)
			if err != nil {
				l.fail(origin, k.path, "%s", err)
				continue
			}
			l.setList(k, v, elements, origin)
			continue
		}
		l.set(k, flag.Value.String(), "", origin)
	}
}

// dataFolder fills in the default of data and makes it absolute, so that what
// is printed and logged does not depend on the working directory.
func (l *loader) dataFolder() {
	c := l.config
	if c.Data == "" {
		folder, err := DefaultData(l.getenv)
		if err != nil {
			l.fail(Origin{}, "data", "%s", err)
			return
		}
		c.Data = folder
	}
	abs, err := filepath.Abs(c.Data)
	if err != nil {
		l.fail(c.Origin("data"), "data", "cannot be made absolute: %s", err)
		return
	}
	c.Data = abs
}

// DefaultData returns the folder used when data is not set:
// $XDG_DATA_HOME/parley, else $HOME/.local/share/parley. getenv is os.LookupEnv
// outside tests. It fails where neither variable is set.
func DefaultData(getenv func(string) (string, bool)) (string, error) {
	if dir, _ := getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) { // the XDG specification says to ignore relative ones
		return filepath.Join(dir, "parley"), nil
	}
	if home, _ := getenv("HOME"); home != "" {
		return filepath.Join(home, ".local", "share", "parley"), nil
	}
	return "", errors.New("there is no home folder to put it in: set data or --data to a folder")
}

// Origin returns where the value of a key was written. Keys are dotted, as in
// "limits.call_deadline"; for unknown ones the answer is the default.
func (c *Config) Origin(key string) Origin {
	if origin, ok := c.origins[key]; ok {
		return origin
	}
	return Origin{Source: FromDefault}
}

// readFile returns the file's content, bounded.
func readFile(name string) ([]byte, error) {
	stat, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if stat.Size() > int64(maxFile) {
		return nil, fmt.Errorf("larger than %s: is it the right file?", maxFile)
	}
	return os.ReadFile(name)
}
