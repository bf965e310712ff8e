package app

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

// certKeeper serves a certificate from two files and follows their changes.
type certKeeper struct {
	cert, key string

	mu      sync.Mutex
	loaded  *tls.Certificate // guarded by mu
	stamp   time.Time        // newest modification time of the loaded files; guarded by mu
	checked time.Time        // guarded by mu
}

// get gives the certificate. A changed pair that cannot be loaded (half
// written, or key and certificate apart) leaves the old one in use until the
// next look.
func (k *certKeeper) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if k.loaded != nil && now.Sub(k.checked) < certCheck {
		return k.loaded, nil
	}
	k.checked = now
	stamp, err := newest(k.cert, k.key)
	if err == nil && (k.loaded == nil || stamp.After(k.stamp)) {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(k.cert, k.key); err == nil {
			k.loaded, k.stamp = &pair, stamp
		}
	}
	if k.loaded == nil {
		return nil, fmt.Errorf("load the certificate: %w", err)
	}
	return k.loaded, nil
}

// newest is the latest modification time among files.
func newest(files ...string) (time.Time, error) {
	var latest time.Time
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return time.Time{}, err
		}
		if info.ModTime().After(latest) {
			latest = info.ModTime()
		}
	}
	return latest, nil
}
