package ringtrue

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const (
	defaultTimeout    = 10 * time.Second
	defaultMaxRetries = 2
	// operatorTimeout is for calls during which the service asks an operator for up to 15 seconds.
	operatorTimeout = 20 * time.Second
	// maxIdleConnections is how many connections stay open between calls.
	maxIdleConnections = 32
)

// Client calls a Ringtrue deployment with one credential. Products need a project's credential, and Management a
// workspace's. It is safe for concurrent use.
type Client struct {
	// Verifications verifies numbers by the best method available.
	Verifications *Verifications
	// ReverseSms verifies a number by an SMS that the user sends.
	ReverseSms *ReverseSms
	// SecureSna verifies a device's number silently over mobile data.
	SecureSna *SecureSna
	// Discovery returns a device's number over mobile data.
	Discovery *Discovery
	// SimSwap checks whether a number's SIM was changed recently.
	SimSwap *SimSwap
	// Eligibility lists the products available for a number or a device.
	Eligibility *EligibilityLookup
	// Sandbox acts as the simulated phone of sandbox projects.
	Sandbox *Sandbox
	// Management administers workspaces, projects and credentials.
	Management *Management
	// Callbacks verifies callbacks.
	Callbacks *Callbacks

	core *core
}

// core is what all services share. It keeps the secret in a function, so that no formatting of a struct prints it.
type core struct {
	baseURL      string
	authorize    func(*http.Request)
	http         *http.Client
	timeout      time.Duration
	isTimeoutSet bool
	maxRetries   int
	allowSandbox bool
	publicURL    *url.URL
	now          func() time.Time
	userAgent    string
	tokens       tokenCache
}

// config collects the options of [New].
type config struct {
	url, clientID, clientSecret string
	withoutCredential           bool
	timeout                     time.Duration
	isTimeoutSet                bool
	maxRetries                  int
	allowSandbox                bool
	publicURL                   string
	httpClient                  *http.Client
	now                         func() time.Time
}

// Option is a setting of [New].
type Option func(*config)

// WithURL sets the deployment's base URL. The default is the environment variable RINGTRUE_URL.
func WithURL(url string) Option { return func(c *config) { c.url = url } }

// WithCredential sets the credential. The defaults are RINGTRUE_CLIENT_ID and RINGTRUE_CLIENT_SECRET.
func WithCredential(clientID, clientSecret string) Option {
	return func(c *config) { c.clientID, c.clientSecret = clientID, clientSecret }
}

// WithoutCredential is for a receiver that only verifies callbacks, which needs no credential. All calls of the API
// fail.
func WithoutCredential() Option { return func(c *config) { c.withoutCredential = true } }

// WithTimeout limits each attempt of a call. The default is 10 seconds, or 20 seconds where the service asks an
// operator during the call: creating a SIM Swap check and redeeming a code. Limit the whole call with its context.
func WithTimeout(timeout time.Duration) Option {
	return func(c *config) { c.timeout, c.isTimeoutSet = timeout, true }
}

// WithMaxRetries sets how often a failed call is repeated. The default is 2; 0 disables retries.
func WithMaxRetries(retries int) Option { return func(c *config) { c.maxRetries = retries } }

// AllowSandbox accepts results and callbacks of sandbox projects. They prove nothing about a number: use it in tests
// only.
func AllowSandbox() Option { return func(c *config) { c.allowSandbox = true } }

// WithPublicURL sets the URL under which callers reach the root of your server, such as `https://shop.example.com`. Set
// it in production: a callback that was signed for another receiver could otherwise be replayed to you with its Host
// header. With it, callbacks must be signed for this host, whatever the header says. It is also required behind a
// proxy that replaces the Host header or removes a path prefix.
func WithPublicURL(url string) Option { return func(c *config) { c.publicURL = url } }

// WithHTTPClient sets the HTTP client, for example with a proxy or a private certificate authority. Redirects are never
// followed.
func WithHTTPClient(client *http.Client) Option { return func(c *config) { c.httpClient = client } }

// WithClock sets the clock, for tests. It decides when tokens and keys are renewed and which callbacks are too old.
func WithClock(now func() time.Time) Option { return func(c *config) { c.now = now } }

// New creates a client. Settings that are not given come from the environment; see [WithURL] and [WithCredential]. It
// makes no request.
func New(options ...Option) (*Client, error) {
	settings := config{
		url:          os.Getenv("RINGTRUE_URL"),
		clientID:     os.Getenv("RINGTRUE_CLIENT_ID"),
		clientSecret: os.Getenv("RINGTRUE_CLIENT_SECRET"),
		timeout:      defaultTimeout,
		maxRetries:   defaultMaxRetries,
		httpClient:   &http.Client{Transport: newTransport()},
		now:          time.Now,
	}
	for _, option := range options {
		option(&settings)
	}
	core, err := newCore(&settings)
	if err != nil {
		return nil, err
	}
	return &Client{
		Verifications: &Verifications{core},
		ReverseSms:    &ReverseSms{core},
		SecureSna:     &SecureSna{core},
		Discovery:     &Discovery{core},
		SimSwap:       &SimSwap{core},
		Eligibility:   &EligibilityLookup{core},
		Sandbox:       &Sandbox{core},
		Management:    newManagement(core),
		Callbacks:     newCallbacks(core),
		core:          core,
	}, nil
}

// newTransport is net/http's, with more connections kept for the one host that a client calls.
func newTransport() http.RoundTripper {
	standard, isStandard := http.DefaultTransport.(*http.Transport)
	if !isStandard {
		return http.DefaultTransport
	}
	transport := standard.Clone()
	transport.MaxIdleConnsPerHost = maxIdleConnections
	return transport
}

func newCore(settings *config) (*core, error) {
	base, err := parseBaseURL(settings.url, "the URL", "RINGTRUE_URL")
	if err != nil {
		return nil, err
	}
	var publicURL *url.URL
	if settings.publicURL != "" {
		if publicURL, err = parseBaseURL(settings.publicURL, "the public URL", "WithPublicURL"); err != nil {
			return nil, err
		}
	}
	switch {
	case settings.withoutCredential:
	case settings.clientID == "":
		return nil, &ConfigError{"the client id is missing: set RINGTRUE_CLIENT_ID or use WithCredential"}
	case settings.clientSecret == "":
		return nil, &ConfigError{"the client secret is missing: set RINGTRUE_CLIENT_SECRET or use WithCredential"}
	}
	if settings.timeout <= 0 {
		return nil, &ConfigError{"the timeout must be positive"}
	}
	if settings.maxRetries < 0 {
		return nil, &ConfigError{"the number of retries must not be negative"}
	}
	if settings.httpClient == nil || settings.now == nil {
		return nil, &ConfigError{"the HTTP client and the clock must not be nil"}
	}
	client := *settings.httpClient
	// The API never redirects. Following one would send the token to another host.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	core := &core{
		baseURL:      strings.TrimSuffix(base.String(), "/"),
		http:         &client,
		timeout:      settings.timeout,
		isTimeoutSet: settings.isTimeoutSet,
		maxRetries:   settings.maxRetries,
		allowSandbox: settings.allowSandbox,
		publicURL:    publicURL,
		now:          settings.now,
		userAgent:    "ringtrue-go/" + Version,
	}
	if !settings.withoutCredential {
		// RFC 6749, section 2.3.1, encodes both before Basic does.
		id, secret := url.QueryEscape(settings.clientID), url.QueryEscape(settings.clientSecret)
		core.authorize = func(request *http.Request) { request.SetBasicAuth(id, secret) }
	}
	return core, nil
}

// parseBaseURL accepts an absolute http or https URL without user, query and fragment. Its errors do not repeat the
// URL, which may contain a password.
func parseBaseURL(text, name, setting string) (*url.URL, error) {
	if text == "" {
		return nil, &ConfigError{fmt.Sprintf("%s is missing: set %s or use WithURL", name, setting)}
	}
	parsed, err := url.Parse(text)
	if err != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Host == "" {
		return nil, &ConfigError{fmt.Sprintf("%s (%s) is not an absolute http or https URL", name, setting)}
	}
	if parsed.User != nil || parsed.RawQuery != "" || parsed.ForceQuery || parsed.Fragment != "" {
		return nil, &ConfigError{fmt.Sprintf("%s (%s) must not contain a user, query or fragment", name, setting)}
	}
	return parsed, nil
}

// Format implements [fmt.Formatter]. It prints the URL and never the credential, whatever the verb.
func (c *Client) Format(state fmt.State, _ rune) {
	fmt.Fprintf(state, "ringtrue.Client(%s)", c.core.baseURL)
}
