package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/parley-mesh/parley/internal/parley"
)

// MaxTextLength bounds descriptions and notes, in bytes.
const MaxTextLength = 1000

// inTheWay is how many names a refused deletion lists.
const inTheWay = 5

// Bootstrap makes what every mesh has: the owner parley.DefaultOwner. It may be
// called at every start.
func (d *Directory) Bootstrap(ctx context.Context) error {
	_, err := d.store.Owner(ctx, parley.DefaultOwner)
	if err == nil || parley.KindOf(err) != parley.NotFound {
		return err
	}
	_, err = d.CreateOwner(ctx, parley.DefaultOwner, "answers for what is registered without an owner")
	if parley.KindOf(err) == parley.Conflict { // another process was faster
		return nil
	}
	return err
}

// CreateOwner adds an owner. Errors: parley.Invalid, parley.Conflict where the
// name is taken.
func (d *Directory) CreateOwner(ctx context.Context, name parley.OwnerName, description string) (*Owner, error) {
	const op = "identity.createOwner"
	var wrong []parley.Field
	wrong = checkName(wrong, "/name", "owner", string(name))
	wrong = checkText(wrong, "/description", description)
	if err := invalid(op, parley.Subject(name), wrong); err != nil {
		return nil, err
	}
	o := &Owner{Name: name, Description: description, CreatedAt: d.opts.Now()}
	if err := d.store.SaveOwner(ctx, o, d.ownerEvent(ctx, "owner.added", o)); err != nil {
		return nil, taken(op, err, "owner", string(name))
	}
	return d.store.Owner(ctx, name)
}

// Owner gives one owner, or a parley.NotFound error.
func (d *Directory) Owner(ctx context.Context, name parley.OwnerName) (*Owner, error) {
	return d.store.Owner(ctx, name)
}

// Owners gives owners by name, those behind after.
func (d *Directory) Owners(ctx context.Context, after parley.OwnerName, limit int) ([]*Owner, error) {
	return d.store.Owners(ctx, after, limit)
}

// UpdateOwner changes an owner's description. A version other than 0 must be
// the owner's current one, else parley.Conflict.
func (d *Directory) UpdateOwner(ctx context.Context, name parley.OwnerName, version int64, description string) (*Owner, error) {
	const op = "identity.updateOwner"
	if err := invalid(op, parley.Subject(name), checkText(nil, "/description", description)); err != nil {
		return nil, err
	}
	o, err := d.store.Owner(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := SameVersion(op, string(name), version, o.Version); err != nil {
		return nil, err
	}
	o.Description = description
	if err := d.store.SaveOwner(ctx, o, d.ownerEvent(ctx, "owner.changed", o)); err != nil {
		return nil, err
	}
	d.Invalidate()
	return d.store.Owner(ctx, name)
}

// DeleteOwner removes an owner that answers for nothing any more; else
// parley.Conflict names what is in the way. The default owner stays.
func (d *Directory) DeleteOwner(ctx context.Context, name parley.OwnerName, version int64) error {
	const op = "identity.deleteOwner"
	if name == parley.DefaultOwner {
		return parley.E(op, parley.Conflict, parley.Subject(name), "the owner \"default\" answers for whatever has no other owner and cannot be deleted", nil)
	}
	o, err := d.store.Owner(ctx, name)
	if err != nil {
		return err
	}
	if err := SameVersion(op, string(name), version, o.Version); err != nil {
		return err
	}
	if err := d.answersForNothing(ctx, op, name); err != nil {
		return err
	}
	if err := d.store.DeleteOwner(ctx, name, o.Version, d.ownerEvent(ctx, "owner.removed", o)); err != nil {
		return err
	}
	d.Invalidate()
	return nil
}

// answersForNothing reports what an owner still answers for. The store refuses
// as well, should something come between; this says it in words.
func (d *Directory) answersForNothing(ctx context.Context, op parley.Op, name parley.OwnerName) error {
	agents, err := d.agents.AgentsOf(ctx, name, inTheWay+1)
	if err != nil {
		return err
	}
	principals, err := d.store.Principals(ctx, name, "", inTheWay+1)
	if err != nil {
		return err
	}
	var parts []string
	if len(agents) > 0 {
		parts = append(parts, "agents "+someOf(agents)+" (parley agent rm NAME)")
	}
	if len(principals) > 0 {
		names := make([]parley.PrincipalName, len(principals))
		for i, p := range principals {
			names[i] = p.Name
		}
		parts = append(parts, "principals "+someOf(names)+" (parley principal rm NAME)")
	}
	if len(parts) == 0 {
		return nil
	}
	return parley.E(op, parley.Conflict, parley.Subject(name),
		fmt.Sprintf("owner %q still answers for %s: remove them first", name, strings.Join(parts, " and ")), nil)
}

// someOf lists the first few names and says when there are more.
func someOf[T ~string](names []T) string {
	var b strings.Builder
	for i, n := range names {
		if i == inTheWay {
			b.WriteString(" and more")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(n))
	}
	return b.String()
}

// checkName adds what is wrong with a name.
func checkName(wrong []parley.Field, path, what, name string) []parley.Field {
	if err := parley.CheckName(what, name); err != nil {
		return append(wrong, parley.Field{Path: path, Problem: err.Error(), Fix: "choose a name such as \"team-a\""})
	}
	return wrong
}

// checkText adds what is wrong with a text for people.
func checkText(wrong []parley.Field, path, text string) []parley.Field {
	if len(text) > MaxTextLength {
		return append(wrong, parley.Field{Path: path,
			Problem: fmt.Sprintf("is %d bytes long", len(text)), Fix: fmt.Sprintf("use at most %d bytes", MaxTextLength)})
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, isControl) {
		return append(wrong, parley.Field{Path: path,
			Problem: "holds control characters or is not UTF-8", Fix: "use one line of plain text"})
	}
	return wrong
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f || r == 0x2028 || r == 0x2029 }

// invalid is the error that lists wrong fields; nil if there are none.
func invalid(op parley.Op, subject parley.Subject, wrong []parley.Field) error {
	if len(wrong) == 0 {
		return nil
	}
	return &parley.Error{Op: op, Kind: parley.Invalid, Subject: subject, Message: "the input is not valid", Fields: wrong}
}

// taken words the conflict of a name that exists already.
func taken(op parley.Op, err error, what, name string) error {
	if parley.KindOf(err) != parley.Conflict {
		return err
	}
	return &parley.Error{
		Op: op, Kind: parley.Conflict, Subject: parley.Subject(name), Err: err,
		Message: fmt.Sprintf("%s %q exists already", what, name),
		Fields:  []parley.Field{{Path: "/name", Problem: "is taken", Fix: "choose another name"}},
	}
}

// ErrStale is the cause inside the parley.Conflict of a change that was decided
// on an older state: whoever gets it reads again and decides anew.
var ErrStale = errors.New("decided on an older version")

// SameVersion refuses a change that was decided on an older state. A want of 0
// accepts any.
func SameVersion(op parley.Op, name string, want, have int64) error {
	if want == 0 || want == have {
		return nil
	}
	return parley.E(op, parley.Conflict, parley.Subject(name),
		fmt.Sprintf("%q has changed since: it is at version %d, not %d; read it again", name, have, want), ErrStale)
}
