package manifest

// Ref is a reference of a Credential and where it stands in the document.
type Ref struct {
	Pointer string
	Ref     *SecretRef
	// PEM says that the text is a PEM file's, of many lines.
	PEM bool
}

// Refs are the references that the credential has, the secret's first.
func (c *Credential) Refs() (refs []Ref) {
	add := func(pointer string, ref *SecretRef, pem bool) {
		if ref != nil {
			refs = append(refs, Ref{pointer, ref, pem})
		}
	}
	add(PointerSecret, c.SecretRef, false)
	if x := c.Certificate; x != nil {
		add(PointerChain, x.ChainRef, true)
		add(PointerKey, x.KeyRef, true)
		add(PointerCA, x.CARef, true)
	}
	return refs
}

// Where the references of a Credential stand.
const (
	PointerSecret = "/spec/secretRef"
	PointerChain  = "/spec/certificate/chainRef"
	PointerKey    = "/spec/certificate/keyRef"
	PointerCA     = "/spec/certificate/caRef"
)
