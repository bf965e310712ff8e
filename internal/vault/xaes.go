package vault

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
)

const (
	keySize   = 32
	nonceSize = 24 // half selects the message's key, half is its GCM nonce
	tagSize   = 16
)

// xaes is XAES-256-GCM (c2sp.org/XAES-256-GCM): AES-256-GCM under a key that
// the first half of a 192-bit nonce derives. Nonces may be random without a
// limit that matters.
type xaes struct {
	block  cipher.Block
	subkey [aes.BlockSize]byte // K1 of CMAC
}

func newXAES(key [keySize]byte) *xaes {
	block, err := aes.NewCipher(key[:])
	if err != nil { // the size is right by type
		panic(err)
	}
	x := &xaes{block: block}
	block.Encrypt(x.subkey[:], x.subkey[:])
	var carry byte
	for i := len(x.subkey) - 1; i >= 0; i-- {
		x.subkey[i], carry = x.subkey[i]<<1|carry, x.subkey[i]>>7
	}
	x.subkey[len(x.subkey)-1] ^= carry * 0x87
	return x
}

// message gives the cipher of one message, chosen by the first half of nonce.
func (x *xaes) message(nonce []byte) cipher.AEAD {
	var key [keySize]byte
	for i := range 2 {
		half := key[i*aes.BlockSize : (i+1)*aes.BlockSize]
		half[1], half[2] = byte(i+1), 'X'
		copy(half[4:], nonce[:nonceSize/2])
		subtle.XORBytes(half, half, x.subkey[:])
		x.block.Encrypt(half, half)
	}
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return aead
}

// seal appends the sealed plaintext to dst.
func (x *xaes) seal(dst, nonce, plaintext, aad []byte) []byte {
	return x.message(nonce).Seal(dst, nonce[nonceSize/2:], plaintext, aad)
}

// open gives the plaintext, or an error where anything was changed.
func (x *xaes) open(nonce, sealed, aad []byte) ([]byte, error) {
	return x.message(nonce).Open(nil, nonce[nonceSize/2:], sealed, aad)
}
