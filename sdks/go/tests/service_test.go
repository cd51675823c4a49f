// Package tests tests the library against the real service. It is a module of its own, so that it is not published.
package tests

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ringtrue.example/ringtrue"
)

// deadline is how long tests wait for a condition. It only decides how long a failing test takes.
const deadline = 30 * time.Second

type credential struct {
	WorkspaceID  string `json:"workspace_id"`
	ProjectID    string `json:"project_id"`
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
}

// service is a running `ringtrue dev`.
type service struct {
	BaseURL   string     `json:"base_url"`
	Workspace credential `json:"workspace"`
	Project   credential `json:"project"`

	data     string
	settings []string
	command  *exec.Cmd
}

// shared is the service of most tests. Rate limits must not stop them.
var shared *service

var noLimits = []string{
	"RINGTRUE_RATE_LIMITS__READ=1000000", "RINGTRUE_RATE_LIMITS__CREATE=1000000",
	"RINGTRUE_RATE_LIMITS__TOKEN=1000000", "RINGTRUE_RATE_LIMITS__MANAGEMENT=1000000",
	"RINGTRUE_RATE_LIMITS__ELIGIBILITY=1000000",
}

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	data, err := os.MkdirTemp("", "ringtrue-go-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(data)
	shared = &service{data: data, settings: noLimits}
	if err := shared.start("127.0.0.1:0"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := shared.stop(syscall.SIGTERM); err != nil {
		fmt.Fprintln(os.Stderr, "ringtrue did not stop cleanly:", err)
		return 1
	}
	return code
}

// startService starts a service for one test.
func startService(t *testing.T, settings ...string) *service {
	t.Helper()
	s := &service{data: t.TempDir(), settings: settings}
	if err := s.start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(syscall.SIGTERM); err != nil {
			t.Error("ringtrue did not stop cleanly:", err)
		}
	})
	return s
}

func (s *service) start(address string) error {
	binary := os.Getenv("BINARY_UNDER_TEST")
	if binary == "" {
		return errors.New("BINARY_UNDER_TEST is not set")
	}
	s.command = exec.Command(binary, "dev", "--data", s.data, "--listen", address)
	s.command.Env = append(os.Environ(), s.settings...)
	s.command.Stderr = os.Stderr
	stdout, err := s.command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.command.Start(); err != nil {
		return err
	}
	// The banner ends with how to stop; dev.json is written before it.
	lines := bufio.NewScanner(stdout)
	isReady := false
	for !isReady && lines.Scan() {
		isReady = strings.Contains(lines.Text(), "Ctrl+C")
	}
	if !isReady {
		return fmt.Errorf("ringtrue exited before it was ready: %v", s.command.Wait())
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	text, err := os.ReadFile(filepath.Join(s.data, "dev.json"))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, s)
}

func (s *service) stop(signal os.Signal) error {
	if err := s.command.Process.Signal(signal); err != nil {
		return err
	}
	return s.command.Wait()
}

// run runs an operator command against the database of the service.
func (s *service) run(t *testing.T, arguments ...string) {
	t.Helper()
	command := exec.Command(os.Getenv("BINARY_UNDER_TEST"), arguments...)
	command.Env = append(os.Environ(),
		"RINGTRUE_BASE_URL="+s.BaseURL,
		"RINGTRUE_STORE__URL=sqlite:"+filepath.Join(s.data, "ringtrue.db"),
		"RINGTRUE_KEYS__MASTER_KEY_FILE="+filepath.Join(s.data, "master.key"),
	)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", arguments, err, output)
	}
}

// client returns a client of the project that accepts sandbox results.
func (s *service) client(t *testing.T, options ...ringtrue.Option) *ringtrue.Client {
	t.Helper()
	return newClient(t, s.BaseURL, s.Project, append([]ringtrue.Option{ringtrue.AllowSandbox()}, options...)...)
}

// manager returns a client of the workspace.
func (s *service) manager(t *testing.T, options ...ringtrue.Option) *ringtrue.Client {
	t.Helper()
	return newClient(t, s.BaseURL, s.Workspace, options...)
}

func newClient(t *testing.T, url string, credential credential, options ...ringtrue.Option) *ringtrue.Client {
	t.Helper()
	client, err := ringtrue.New(append([]ringtrue.Option{
		ringtrue.WithURL(url), ringtrue.WithCredential(credential.ClientID, credential.ClientSecret),
	}, options...)...)
	return ok(client, err)(t)
}

// ok returns the value of a call that must not fail: `ok(call())(t)`.
func ok[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// as returns the error as a type, or fails.
func as[T error](t *testing.T, err error) T {
	t.Helper()
	var target T
	if !errors.As(err, &target) {
		t.Fatalf("got error %T %v, want %T", err, err, target)
	}
	return target
}

// waitFor waits for a condition with a deadline.
func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if condition() {
			return
		}
	}
	t.Fatalf("waited in vain: %s", what)
}

var numbers atomic.Int64

// number returns a number without other checks. Its last digits decide what the simulated operator does.
func number(ending string) string { return fmt.Sprintf("+9901%07d%s", numbers.Add(1), ending) }

var background = context.Background()

// openOnDevice opens the URL of a silent check as the app does, and returns the code at the end.
func openOnDevice(t *testing.T, target string) string {
	t.Helper()
	request := ok(http.NewRequest(http.MethodGet, target, nil))(t)
	request.Header.Set("Accept", "application/json")
	response := ok(http.DefaultClient.Do(request))(t)
	defer response.Body.Close()
	var end struct{ Code, Error string }
	if err := json.NewDecoder(response.Body).Decode(&end); err != nil {
		t.Fatal(err)
	}
	if end.Code == "" {
		t.Fatalf("no code: %d %s", response.StatusCode, end.Error)
	}
	return end.Code
}

// browser is a user's browser with cookies. It does not follow redirects.
type browser struct{ http.Client }

func newBrowser() *browser {
	jar, _ := cookiejar.New(nil)
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &browser{http.Client{Jar: jar, CheckRedirect: stay, Timeout: deadline}}
}

// navigate sends a request as a navigation from the page itself, and returns the body and the redirect.
func (b *browser) navigate(t *testing.T, method, target string, form url.Values) (string, string) {
	t.Helper()
	request := ok(http.NewRequest(method, target, strings.NewReader(form.Encode())))(t)
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	request.Header.Set("Sec-Fetch-Mode", "navigate")
	request.Header.Set("Sec-Fetch-Dest", "document")
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response := ok(b.Do(request))(t)
	defer response.Body.Close()
	body := ok(io.ReadAll(response.Body))(t)
	location := response.Header.Get("Location")
	if location != "" {
		base := ok(url.Parse(target))(t)
		location = ok(base.Parse(location))(t).String()
	}
	return string(body), location
}

var operatorLink = regexp.MustCompile(`data-operator="([^"]+)"`)

// checkSilently lets the hosted page start the silent check, and follows it to the redirect URL. It returns that URL's
// query.
func (b *browser) checkSilently(t *testing.T, pageURL, redirectURL string) url.Values {
	t.Helper()
	body, _ := b.navigate(t, http.MethodGet, pageURL+"/silent", nil)
	found := operatorLink.FindStringSubmatch(body)
	if found == nil {
		t.Fatalf("the page does not go to the operator: %s", body)
	}
	target := html.UnescapeString(found[1])
	for hop := 0; hop < 10; hop++ {
		if strings.HasPrefix(target, redirectURL) {
			return ok(url.Parse(target))(t).Query()
		}
		_, target = b.navigate(t, http.MethodGet, target, nil)
	}
	t.Fatal("too many redirects")
	return nil
}

// returnQuery waits until the page offers the return to the redirect URL, and returns its query.
func (b *browser) returnQuery(t *testing.T, pageURL, redirectURL string) url.Values {
	t.Helper()
	link := regexp.MustCompile(`href="(` + regexp.QuoteMeta(redirectURL) + `\?[^"]+)"`)
	var found []string
	waitFor(t, "the page links back", func() bool {
		body, _ := b.navigate(t, http.MethodGet, pageURL, nil)
		found = link.FindStringSubmatch(body)
		return found != nil
	})
	return ok(url.Parse(html.UnescapeString(found[1])))(t).Query()
}
