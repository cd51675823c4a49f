package ringtrue

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Error is implemented by all errors of this package. Use [errors.As] with the concrete types to tell them apart.
type Error interface {
	error
	ringtrueError()
}

// Errors that an [APIError] matches with [errors.Is].
var (
	// ErrAuthentication is a response 401: the credential is wrong, deleted or expired.
	ErrAuthentication = errors.New("ringtrue: authentication failed")
	// ErrRateLimited is a response 429. RetryAfter says how long to wait.
	ErrRateLimited = errors.New("ringtrue: rate limit exceeded")
	// ErrNotFound is a response 404.
	ErrNotFound = errors.New("ringtrue: not found")
	// ErrCodeInvalid is a response `code_invalid`: the code to redeem is wrong.
	ErrCodeInvalid = errors.New("ringtrue: invalid code")
)

// maxDetailBytes limits texts from responses of which the service is not the author, such as a proxy's page.
const maxDetailBytes = 1024

// APIError is a response with an error.
type APIError struct {
	// Status is the HTTP status.
	Status int
	// ErrorCode is the code for programs, or empty if the response is not from Ringtrue, for example a proxy's.
	ErrorCode ErrorCode
	// Title is a short summary, the same for each occurrence.
	Title string
	// Detail explains this occurrence.
	Detail string
	// Type is the URL of a page that explains this error.
	Type string
	// RequestID is the response's X-Request-Id. Quote it when you ask the operator of the deployment.
	RequestID string
	// RetryAfter is the time to wait before the next attempt, or 0 if the response does not say.
	RetryAfter time.Duration
	// Mode is the project's mode, `sandbox` or `live`, if the response says so.
	Mode Mode
}

func (e *APIError) Error() string {
	text := "ringtrue: " + strconv.Itoa(e.Status)
	if e.ErrorCode != "" {
		text += " " + e.ErrorCode
	}
	switch {
	case e.Detail != "":
		text += ": " + e.Detail
	case e.Title != "":
		text += ": " + e.Title
	}
	if e.RequestID != "" {
		text += " (request id " + e.RequestID + ")"
	}
	return text
}

// Is reports whether the error matches one of the sentinel errors of this package.
func (e *APIError) Is(target error) bool {
	switch target {
	case ErrAuthentication:
		return e.Status == http.StatusUnauthorized
	case ErrRateLimited:
		return e.Status == http.StatusTooManyRequests
	case ErrNotFound:
		return e.Status == http.StatusNotFound
	case ErrCodeInvalid:
		return e.ErrorCode == ErrorCodeCodeInvalid
	}
	return false
}

func (e *APIError) ringtrueError() {}

// newAPIError reads the problem in a response, if it is one.
func newAPIError(status int, header http.Header, body []byte, now time.Time) *APIError {
	var problem struct {
		Type      string `json:"type"`
		Title     string `json:"title"`
		Detail    string `json:"detail"`
		ErrorCode string `json:"error_code"`
	}
	// A proxy's error page is no JSON; the status says enough.
	_ = json.Unmarshal(body, &problem)
	if problem.Title == "" {
		problem.Title = http.StatusText(status)
	}
	return &APIError{
		Status:     status,
		ErrorCode:  problem.ErrorCode,
		Title:      truncate(problem.Title),
		Detail:     truncate(problem.Detail),
		Type:       problem.Type,
		RequestID:  header.Get("X-Request-Id"),
		RetryAfter: parseRetryAfter(header.Get("Retry-After"), now),
		Mode:       header.Get("X-Project-Mode"),
	}
}

func truncate(text string) string {
	if len(text) <= maxDetailBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxDetailBytes], "") + "…"
}

// parseRetryAfter reads seconds or an HTTP date (RFC 9110, section 10.2.3). It returns 0 for anything else.
func parseRetryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil && date.After(now) {
		return date.Sub(now)
	}
	return 0
}

// ConnectionError is a call without a complete response: the connection failed, the attempt timed out, or the caller's
// context ended. In the last case it wraps [context.Canceled] or [context.DeadlineExceeded].
type ConnectionError struct {
	// Err is the cause.
	Err error
	// isTimeout: the attempt timed out.
	isTimeout bool
}

func (e *ConnectionError) Error() string { return "ringtrue: connection failed: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ConnectionError) Unwrap() error { return e.Err }

// Timeout reports whether an attempt got no response in time.
func (e *ConnectionError) Timeout() bool { return e.isTimeout }

func (e *ConnectionError) ringtrueError() {}

// ConfigError is an invalid or missing setting of [New].
type ConfigError struct{ message string }

func (e *ConfigError) Error() string  { return "ringtrue: " + e.message }
func (e *ConfigError) ringtrueError() {}

// ArgumentError is an argument that cannot be sent. No request was made.
type ArgumentError struct{ message string }

func (e *ArgumentError) Error() string  { return "ringtrue: " + e.message }
func (e *ArgumentError) ringtrueError() {}

// ResponseError is a successful response that this library cannot read, for example from something other than
// Ringtrue.
type ResponseError struct {
	// RequestID is the response's X-Request-Id.
	RequestID string
	err       error
}

func (e *ResponseError) Error() string {
	return fmt.Sprintf("ringtrue: invalid response (request id %q): %v", e.RequestID, e.err)
}

// Unwrap returns the cause.
func (e *ResponseError) Unwrap() error  { return e.err }
func (e *ResponseError) ringtrueError() {}

// ForeignReturnError is a return to your redirect URL that does not belong to the session. Somebody may have sent your
// user a link with another session's result. Nothing was redeemed.
type ForeignReturnError struct{ message string }

func (e *ForeignReturnError) Error() string  { return "ringtrue: foreign return: " + e.message }
func (e *ForeignReturnError) ringtrueError() {}

// SandboxRefusedError is a result that proves nothing about a number, because the project is not live. See
// [AllowSandbox].
type SandboxRefusedError struct {
	// Mode is the project's mode in the response, usually `sandbox`.
	Mode Mode
}

func (e *SandboxRefusedError) Error() string {
	return fmt.Sprintf("ringtrue: refused the result of a project in mode %q; use AllowSandbox in tests only", e.Mode)
}

func (e *SandboxRefusedError) ringtrueError() {}
