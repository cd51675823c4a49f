package tests

import (
	"archive/zip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const modulePath = "ringtrue.example/ringtrue"

// run runs a command in a folder.
func run(t *testing.T, folder string, settings []string, command ...string) {
	t.Helper()
	process := exec.Command(command[0], command[1:]...)
	process.Dir, process.Env = folder, append(os.Environ(), settings...)
	if output, err := process.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", command, err, output)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// readmeProgram is the program in the README: the handlers come first there.
func readmeProgram(t *testing.T, address string) string {
	t.Helper()
	text := string(ok(os.ReadFile("../README.md"))(t))
	blocks := goBlock.FindAllStringSubmatch(text, 2)
	program := blocks[1][1] + "\n" + blocks[0][1]
	if !strings.Contains(program, "127.0.0.1:3000") {
		t.Fatal("the README has another address")
	}
	return strings.ReplaceAll(program, "127.0.0.1:3000", address)
}

// readmeExamples are the other examples in the README, each in a function.
func readmeExamples(t *testing.T) string {
	t.Helper()
	text := `package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	"ringtrue.example/ringtrue"
)

func save(ctx context.Context, id, status string, match *bool) error { return nil }
`
	blocks := goBlock.FindAllStringSubmatch(string(ok(os.ReadFile("../README.md"))(t)), -1)[2:]
	for index, block := range blocks {
		text += fmt.Sprintf("\nfunc example%d(ctx context.Context, store ringtrue.SeenStore, workspaceID, projectID string, err error) {\n%s}\n", index, block[1])
	}
	equal(t, "examples", len(blocks), 4)
	return text
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener := ok(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	return listener.Addr().String()
}

func TestPackedModuleSignsAUserUp(t *testing.T) {
	proxy, project, cache := t.TempDir(), t.TempDir(), t.TempDir()
	run(t, ".", nil, "../pack", proxy)
	archive := filepath.Join(proxy, modulePath, "@v", "v1.0.0.zip")
	t.Logf("the module has %d bytes", ok(os.Stat(archive))(t).Size())

	address := freeAddress(t)
	write(t, filepath.Join(project, "main.go"), readmeProgram(t, address))
	settings := []string{
		"GOPROXY=file://" + proxy, "GONOSUMDB=ringtrue.example", "GOMODCACHE=" + cache, "GOFLAGS=-modcacherw", "GOTOOLCHAIN=local",
	}
	run(t, project, settings, "go", "mod", "init", "shop.example/shop")
	run(t, project, settings, "go", "get", modulePath+"@v1.0.0")
	run(t, project, settings, "go", "vet", ".")
	run(t, project, settings, "go", "build", "-o", "shop", ".")
	signUpInReadmeShop(t, filepath.Join(project, "shop"), "http://"+address)
}

func signUpInReadmeShop(t *testing.T, binary, shopURL string) {
	t.Helper()
	shop := exec.Command(binary)
	shop.Stderr = os.Stderr
	shop.Env = append(os.Environ(),
		"RINGTRUE_URL="+shared.BaseURL,
		"RINGTRUE_CLIENT_ID="+shared.Project.ClientID,
		"RINGTRUE_CLIENT_SECRET="+shared.Project.ClientSecret,
	)
	if err := shop.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = shop.Process.Kill()
		_ = shop.Wait()
	}()
	waitFor(t, "the shop listens", func() bool {
		response, err := http.Get(shopURL + "/verified")
		if err == nil {
			response.Body.Close()
		}
		return err == nil
	})
	for ending, want := range map[string]bool{"00": true, "01": false} {
		user := newBrowser()
		_, pageURL := user.navigate(t, http.MethodPost, shopURL+"/sign-up", url.Values{"phone_number": {number(ending)}})
		query := user.checkSilently(t, pageURL, shopURL+"/verified")
		text, _ := user.navigate(t, http.MethodGet, shopURL+"/verified?"+query.Encode(), nil)
		equal(t, "result of "+ending, strings.TrimSpace(text), fmt.Sprintf("Number verified: %t", want))
		// The link does not work in another browser.
		text, _ = newBrowser().navigate(t, http.MethodGet, shopURL+"/verified?"+query.Encode(), nil)
		equal(t, "result elsewhere", strings.TrimSpace(text), "Number verified: false")
	}
}

func TestPackedModuleWorksAsACopy(t *testing.T) {
	proxy, project := t.TempDir(), t.TempDir()
	run(t, ".", nil, "../pack", proxy)
	unzip(t, filepath.Join(proxy, modulePath, "@v", "v1.0.0.zip"), modulePath+"@v1.0.0/", filepath.Join(project, "third_party/ringtrue"))
	write(t, filepath.Join(project, "main.go"), readmeProgram(t, "127.0.0.1:3000"))
	write(t, filepath.Join(project, "examples.go"), readmeExamples(t))
	write(t, filepath.Join(project, "go.mod"), "module shop.example/shop\n\ngo 1.19\n\nrequire "+modulePath+
		" v1.0.0\n\nreplace "+modulePath+" => ./third_party/ringtrue\n")
	run(t, project, []string{"GOPROXY=off", "GOFLAGS="}, "go", "vet", "./...")
	for _, name := range []string{"LICENSE", "README.md", "types.go"} {
		ok(os.Stat(filepath.Join(project, "third_party/ringtrue", name)))(t)
	}
	for _, name := range []string{"check", "test", "pack", "generate", "tests"} {
		if _, err := os.Stat(filepath.Join(project, "third_party/ringtrue", name)); err == nil {
			t.Errorf("%s is published", name)
		}
	}
}

func unzip(t *testing.T, archive, prefix, folder string) {
	t.Helper()
	reader := ok(zip.OpenReader(archive))(t)
	defer reader.Close()
	for _, file := range reader.File {
		content := ok(file.Open())(t)
		write(t, filepath.Join(folder, strings.TrimPrefix(file.Name, prefix)), string(ok(io.ReadAll(content))(t)))
		content.Close()
	}
}
