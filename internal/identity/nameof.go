package identity

import (
	"context"
	"crypto/sha256"
	"strings"

	"github.com/parley-mesh/parley/internal/parley"
)

const (
	// slugLength is how much of a claim becomes part of a name, in bytes: it
	// leaves room for the mark.
	slugLength = 50
	markLength = 10 // base32 characters: 50 bits of a hash
)

// principalNameFor is the name of the principal that is made for a subject: the
// claim in the letters of names, if that is free; else with a mark made of
// issuer and subject behind it. Names of agents are never free, since an agent
// calls under its own.
func (d *Directory) principalNameFor(ctx context.Context, a *Assertion) (parley.PrincipalName, error) {
	plain := slug(a.Name)
	free, err := d.isFree(ctx, plain)
	if err != nil {
		return "", err
	}
	if free {
		return plain, nil
	}
	if plain == "" {
		plain = "subject"
	}
	hash := sha256.Sum256([]byte(a.Issuer + "\x00" + a.Subject))
	return plain + "-" + parley.PrincipalName(keyEncoding.EncodeToString(hash[:])[:markLength]), nil
}

func (d *Directory) isFree(ctx context.Context, name parley.PrincipalName) (bool, error) {
	switch name {
	case "", parley.LocalAdmin, parley.Anonymous, AdminPrincipal:
		return false, nil
	}
	_, err := d.store.Principal(ctx, name)
	if err == nil || parley.KindOf(err) != parley.NotFound {
		return false, err
	}
	_, _, err = d.agents.AgentHome(ctx, parley.AgentName(name))
	if err == nil || parley.KindOf(err) != parley.NotFound {
		return false, err
	}
	return true, nil
}

// slug writes text in the letters of names; empty where none of it can be. An
// address of mail loses what stands behind its @.
func slug(text string) parley.PrincipalName {
	if local, _, mail := strings.Cut(text, "@"); mail && local != "" {
		text = local
	}
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(text) {
		letter, digit := r >= 'a' && r <= 'z', r >= '0' && r <= '9'
		if !letter && !digit {
			gap = b.Len() > 0
			continue
		}
		if b.Len() == 0 && digit {
			b.WriteString("p-") // names begin with a letter
		}
		if gap {
			b.WriteByte('-')
		}
		gap = false
		b.WriteRune(r)
		if b.Len() >= slugLength {
			break
		}
	}
	return parley.PrincipalName(b.String())
}
