package gateway

import (
	"context"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/cardsign"
	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/keyring"
	"github.com/parley-mesh/parley/internal/registry"
)

// provenanceURI, behind Options.ExtensionBase, names the extension that tells
// where a card comes from; see docs/ext/provenance.md.
const provenanceURI = "/provenance/v1"

// provenance is the params of the extension. It holds nothing empty and no
// numbers, so that every reader signs the same bytes.
type provenance struct {
	Mesh       string     `json:"mesh"`
	MeshURL    string     `json:"meshUrl"`
	CardSHA256 string     `json:"cardSha256"` // of the bytes that the agent served
	Signature  string     `json:"signature"`  // registry.SignatureState
	SignedBy   []signedBy `json:"signedBy,omitempty"`
	VerifiedAt string     `json:"verifiedAt,omitempty"` // RFC 3339
}

// signedBy is a key that signed the agent's own card. Where its set is published
// is not told: that would tell where the agent is.
type signedBy struct {
	KeyID      string `json:"kid"`
	Thumbprint string `json:"thumbprint"`
	Algorithm  string `json:"alg"`
	Form       string `json:"form"`
}

// provenance tells in a card where it comes from: the agent's own signatures are
// void once its addresses are rewritten.
func (g *Gateway) provenance(agent *registry.Agent) (a2a.AgentExtension, error) {
	p := provenance{Mesh: g.Mesh, MeshURL: g.PublicURL + "/", CardSHA256: agent.CardHash, Signature: string(agent.Signature.State)}
	if p.Signature == "" {
		p.Signature = "unknown"
	}
	if agent.Signed() {
		p.VerifiedAt = agent.Signature.At.UTC().Format(time.RFC3339)
		for _, k := range agent.Signature.Keys {
			p.SignedBy = append(p.SignedBy, signedBy{KeyID: k.KeyID, Thumbprint: k.Thumbprint, Algorithm: k.Algorithm, Form: k.Form})
		}
	}
	params, err := jsonwire.Marshal(p)
	return a2a.AgentExtension{
		URI: g.ExtensionBase + provenanceURI, Description: "Where this card comes from, as the mesh that serves it knows it.", Params: params,
	}, err
}

// signed gives the agent's card as the mesh shows it, with the mesh's signature
// under the key of the moment.
func (g *Gateway) signed(ctx context.Context, agent *registry.Agent) ([]byte, error) {
	card, err := g.rewrite(agent)
	if err != nil || g.CardKey == nil {
		return card.raw, err
	}
	key, err := g.CardKey(ctx)
	if err != nil {
		return nil, err
	}
	if card.signedBy == key.ID {
		return card.signed, nil
	}
	if card.signed, err = g.signer(key).Sign(card.raw); err != nil {
		return nil, err
	}
	card.signedBy = key.ID
	g.cards.mu.Lock()
	defer g.cards.mu.Unlock()
	if kept, ok := g.cards.by[agent.Name]; ok && kept.of(agent) {
		g.cards.by[agent.Name] = card
	}
	return card.signed, nil
}

// sign gives a card that is served rarely with the mesh's signature.
func (g *Gateway) sign(ctx context.Context, card []byte) ([]byte, error) {
	if g.CardKey == nil {
		return card, nil
	}
	key, err := g.CardKey(ctx)
	if err != nil {
		return nil, err
	}
	return g.signer(key).Sign(card)
}

func (g *Gateway) signer(key *keyring.Key) *cardsign.Signer {
	return &cardsign.Signer{KeyID: key.ID, JKU: g.KeySet, Algorithm: key.Algorithm, Private: key.Private}
}
