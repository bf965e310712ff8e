package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of what is read.
const (
	maxBundle = 4 << 20  // bytes of a certificate chain, a key or a CA bundle
	maxList   = 32 << 20 // bytes of one revocation list
	maxLists  = 1_000    // files in a folder of revocation lists
)

// Options say which files a Keeper follows.
type Options struct {
	Cert, Key string        // PEM files of the server's own chain and key
	ClientCA  string        // PEM file with the authorities of clients; empty: client certificates are not asked for
	Require   bool          // refuse clients without a certificate
	CRL       string        // file or folder of revocation lists, PEM or DER; empty: revocation is not looked at
	Lenient   bool          // take certificates of which no current list tells whether they are revoked
	Every     time.Duration // pause between two looks at the files; 0 means 10 s

	Log *slog.Logger
	Now func() time.Time // nil means time.Now
	// Changed is called after authorities or revocation lists have changed; nil
	// for nobody.
	Changed func()
	// Refused is told of every client certificate that is refused in a handshake,
	// with the client's address; nil for nobody.
	Refused func(remote string, err error)
}

// Keeper serves the newest usable state of its files.
type Keeper struct {
	opts   Options
	loaded atomic.Pointer[material]

	mu    sync.Mutex // one look at the files at a time
	seen  []stamp    // of the last look; guarded by mu
	told  string     // the problem that was last logged; guarded by mu
	stale bool       // that a list is out of date was logged; guarded by mu
}

// material is what was read from the files together.
type material struct {
	server  tls.Certificate
	clients *authorities // nil: client certificates are not asked for
}

// Open reads all files; what cannot be used is an error that names the file.
func Open(o Options) (*Keeper, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Every <= 0 {
		o.Every = 10 * time.Second
	}
	k := &Keeper{opts: o}
	k.seen = k.stamps()
	m := &material{}
	if err := k.read(m); err != nil {
		return nil, err
	}
	k.loaded.Store(m)
	k.warnOfStaleLists(m)
	return k, nil
}

// Run looks at the files every Options.Every and whenever reload gives
// something, until ctx ends. It gives nil.
func (k *Keeper) Run(ctx context.Context, reload <-chan os.Signal) error {
	tick := time.NewTicker(k.opts.Every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			k.look(false)
		case <-reload:
			k.look(true)
		case <-ctx.Done():
			return nil
		}
	}
}

// look takes up files that have changed since the last look; after a failure,
// and where anyway is set, also if they have not. What cannot be used leaves the
// old state in use, and is logged once until it is another problem.
func (k *Keeper) look(anyway bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.stamps()
	old := k.loaded.Load()
	if !anyway && k.told == "" && slices.Equal(now, k.seen) {
		k.warnOfStaleLists(old)
		return
	}
	k.seen = now
	m := &material{old.server, old.clients} // each half stays as it is where its files cannot be used
	if err := k.read(m); err == nil {
		k.told = ""
		k.opts.Log.Info("TLS files read again")
	} else if err.Error() != k.told {
		k.told = err.Error()
		k.opts.Log.Error("TLS files not taken up; what was read before stays in use", "err", err)
	}
	k.stale = false
	k.loaded.Store(m)
	k.warnOfStaleLists(m)
	if k.opts.Changed != nil && m.clients != old.clients {
		k.opts.Changed()
	}
}

// warnOfStaleLists says once that certificates are refused, or taken unseen,
// because a revocation list is out of date. The caller holds mu, or nobody else
// knows the Keeper yet.
func (k *Keeper) warnOfStaleLists(m *material) {
	if m.clients == nil || k.stale {
		return
	}
	for _, l := range m.clients.lists {
		if !l.current(k.opts.Now()) {
			k.stale = true
			does := "refused"
			if k.opts.Lenient {
				does = "taken, as tls.crl_check says"
			}
			k.opts.Log.Warn("a revocation list is out of date", "file", l.file, "next_update", l.nextUpdate, "client_certificates_of_its_issuer", does)
		}
	}
}

// stamp is how a file looked: what changes when its content does.
type stamp struct {
	path string
	time time.Time
	size int64
	fail string
}

func (k *Keeper) stamps() (all []stamp) {
	paths := []string{k.opts.Cert, k.opts.Key, k.opts.ClientCA}
	if lists, err := listFiles(k.opts.CRL); err == nil {
		paths = append(paths, lists...)
	}
	for _, path := range paths {
		if path == "" {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			all = append(all, stamp{path: path, fail: err.Error()})
			continue
		}
		all = append(all, stamp{path: path, time: info.ModTime(), size: info.Size()})
	}
	return all
}

// read puts what the files hold into m. What cannot be used leaves its half of m
// as it was.
func (k *Keeper) read(m *material) error {
	pair, pairErr := readPair(k.opts.Cert, k.opts.Key)
	if pairErr == nil {
		m.server = pair
	}
	if k.opts.ClientCA == "" {
		return pairErr
	}
	clients, err := k.readClients()
	if err == nil {
		m.clients = clients
	}
	return errors.Join(pairErr, err)
}

// readClients reads the authorities and their revocation lists: together, as
// lists without their authorities would be worth nothing, and the other way
// round less than was asked for.
func (k *Keeper) readClients() (*authorities, error) {
	a, err := readAuthorities(k.opts.ClientCA)
	if err != nil {
		return nil, err
	}
	a.lenient, a.revocation = k.opts.Lenient, k.opts.CRL != ""
	files, err := listFiles(k.opts.CRL)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		lists, err := readLists(file)
		if err != nil {
			return nil, err
		}
		a.lists = append(a.lists, lists...)
	}
	return a, nil
}

func readPair(certFile, keyFile string) (tls.Certificate, error) {
	cert, err := readFile(certFile, maxBundle)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := readFile(keyFile, maxBundle)
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate %s with key %s: %w", certFile, keyFile, err)
	}
	return pair, nil
}

// listFiles are the files of revocation lists at path, which is one or a folder
// of them. Files whose names begin with a dot are left out: volumes of
// Kubernetes keep their own there.
func listFiles(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("revocation lists: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("revocation lists: %w", err)
	}
	var files []string
	for _, e := range entries {
		file := filepath.Join(path, e.Name())
		if e.Name()[0] == '.' || isFolder(file) {
			continue
		}
		files = append(files, file)
	}
	if len(files) > maxLists {
		return nil, fmt.Errorf("revocation lists: %s holds %d files, more than %d", path, len(files), maxLists)
	}
	return files, nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// readFile reads a whole file of at most limit bytes.
func readFile(path string, limit int64) (_ []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		if cause, ok := errors.AsType[*fs.PathError](err); ok {
			return nil, fmt.Errorf("%s: %w", path, cause.Err)
		}
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if int64(len(raw)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return raw, nil
}

// Verify judges a client's certificates, the leaf first, by what is loaded now.
// The error says what is wrong with them, in words for whoever presents them.
func (k *Keeper) Verify(presented []*x509.Certificate) error {
	clients := k.loaded.Load().clients
	if clients == nil {
		return errors.New("client certificates are not taken here")
	}
	return clients.verify(presented, k.opts.Now())
}
