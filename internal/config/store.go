package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
)

// Store is where state is kept. The zero value is SQLite in the data folder. An
// address of PostgreSQL may hold a password: it prints without, and as the
// reference where it was given by one.
type Store struct {
	address Secret // unset: SQLite
	shown   string
}

// PostgresStore is the store at an address of PostgreSQL.
func PostgresStore(address string) Store {
	return Store{address: NewSecret(address), shown: withoutPassword(address)}
}

// ParseStore reads a store as the configuration's key does: sqlite, an address of
// PostgreSQL, or file:PATH or env:NAME that holds one. env is an environment as
// os.Environ gives it.
func ParseStore(text string, env []string) (s Store, err error) {
	known := parseEnv(env)
	err = (&storeValue{&s}).setFrom(text, "", func(name string) (string, bool) {
		value, ok := known[name]
		return value, ok
	})
	return s, err
}

// Postgres gives the address of the PostgreSQL store, or false for SQLite.
// Whoever calls it answers for where the password in it goes.
func (s Store) Postgres() (address string, ok bool) { return s.address.Reveal(), s.address.IsSet() }

// String is the store without a password.
func (s Store) String() string {
	if !s.address.IsSet() {
		return sqliteStore
	}
	return s.shown
}

// GoString is the store without a password.
func (s Store) GoString() string { return s.String() }

// LogValue is the store without a password.
func (s Store) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is the store without a password. JSON and YAML encoders use it.
func (s Store) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

const sqliteStore = "sqlite"

func isPostgres(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

// withoutPassword shows user, servers and database of an address. Options are
// left out: some of them are secrets.
func withoutPassword(address string) string {
	u, err := url.Parse(address)
	if err != nil || spilt(u) {
		return redacted
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if u.User != nil {
		shown.User = url.User(u.User.Username())
	}
	return shown.String()
}

// spilt reports whether an address ends in the middle of its password, so that
// parts of that stand where the server, the database and the options belong: a /,
// ? or # in it was not written as %2F, %3F or %23.
func spilt(u *url.URL) bool {
	if u.User != nil {
		return false
	}
	for option := range strings.SplitSeq(u.RawQuery, "&") {
		if name, value, named := strings.Cut(option, "="); !named && option != "" || strings.Contains(name, "@") || strings.HasPrefix(value, "@") {
			return true
		}
	}
	return u.Fragment != "" || strings.Contains(u.Path, "@")
}

// checkAddress says what is wrong with an address, without repeating it.
func checkAddress(address string) error {
	if u, err := url.Parse(address); err != nil || spilt(u) {
		return errors.New("is no address: write postgres://user:password@host:5432/database, and in the password %2F for /, %3F for ?, %23 for #, %40 for @ and %25 for %")
	}
	return nil
}

// storeValue is a Store, given in place or by reference. Problems do not repeat
// what was given: it may hold a password.
type storeValue struct{ p *Store }

func (v *storeValue) set(string, string) error {
	panic("config: a store is read by setFrom")
}

func (v *storeValue) setFrom(text, base string, getenv func(string) (string, bool)) error {
	switch {
	case text == "" || text == sqliteStore:
		*v.p = Store{}
		return nil
	case isPostgres(text):
		if err := checkAddress(text); err != nil {
			return err
		}
		*v.p = PostgresStore(text)
		return nil
	case !strings.HasPrefix(text, "file:") && !strings.HasPrefix(text, "env:"):
		return errors.New("names no store this version knows: write sqlite, or postgres://user:password@host:5432/database, or file:PATH or env:NAME for where that address is (to move SQLite, set data)")
	}
	address, err := resolveSecret(text, base, getenv)
	if err != nil {
		return err
	}
	if !isPostgres(address.Reveal()) {
		return fmt.Errorf("what %s holds is no address of PostgreSQL: it begins with postgres://", address.Reference())
	}
	if err := checkAddress(address.Reveal()); err != nil {
		return fmt.Errorf("what %s holds %w", address.Reference(), err)
	}
	*v.p = Store{address: address, shown: address.Reference()}
	return nil
}

func (v *storeValue) text() string { return v.p.String() }
func (v *storeValue) kind() string {
	return "sqlite, postgres://…, or file:PATH or env:NAME that holds such an address"
}
