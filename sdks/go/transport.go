package ringtrue

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"regexp"
	"time"
)

const (
	// maxRetryAfter is the longest wait that a response can ask for. With a longer one the call fails at once.
	maxRetryAfter = 30 * time.Second
	// The wait after the n-th failure is random between 0 and minBackoff * 2^n, at most maxBackoff.
	minBackoff = 500 * time.Millisecond
	maxBackoff = 8 * time.Second
	// maxResponseBytes bounds memory. The largest responses are lists of usage.
	maxResponseBytes = 16 << 20
)

var idempotencyKeyPattern = regexp.MustCompile(`^[!-~]{1,255}$`)

// CallOption is a setting of one call.
type CallOption func(*callSettings)

type callSettings struct {
	idempotencyKey string
	ifMatch        string
	isForced       bool
	info           *ResponseInfo
}

func newCallSettings(options []CallOption) *callSettings {
	settings := &callSettings{}
	for _, option := range options {
		option(settings)
	}
	return settings
}

// WithIdempotencyKey sets the Idempotency-Key of a create: your own name for it, of 1 to 255 printable ASCII
// characters. A repeated call with the same key and body within 24 hours returns the first result. Without it, the
// library sends a random key, the same for all attempts of the call.
func WithIdempotencyKey(key string) CallOption {
	return func(s *callSettings) { s.idempotencyKey = key }
}

// WithIfMatch makes a change conditional: it fails with 412 if the resource no longer has this ETag. See
// [CaptureResponse] for the current one.
func WithIfMatch(etag string) CallOption { return func(s *callSettings) { s.ifMatch = etag } }

// WithForce lets [Projects.Update] take a project live although the service finds that something is missing, such as
// allowed networks. Other calls ignore it.
func WithForce() CallOption { return func(s *callSettings) { s.isForced = true } }

// CaptureResponse stores what the response says beside its body.
func CaptureResponse(info *ResponseInfo) CallOption { return func(s *callSettings) { s.info = info } }

// ResponseInfo is what a response says beside its body.
type ResponseInfo struct {
	// Status is the HTTP status.
	Status int
	// RequestID is the X-Request-Id.
	RequestID string
	// Mode is the project's mode, `sandbox` or `live`. Empty in Management.
	Mode Mode
	// ETag identifies the version of a workspace, project, credential or list of networks. See [WithIfMatch].
	ETag string
	// IsReplayed: the response repeats an earlier one, because of its idempotency key or redeemed code.
	IsReplayed bool
}

// call is a request to the API.
type call struct {
	method string
	// path has escaped segments; see path.
	path  string
	query url.Values
	scope Scope
	// body is sent as JSON unless it is nil.
	body        any
	contentType string
	// isRetryable: the call may be repeated after a failure of which the effect is unknown.
	isRetryable bool
	// isKeyed: the call has an Idempotency-Key.
	isKeyed bool
	// asksOperator: the service may ask an operator during the call.
	asksOperator bool
	options      []CallOption
}

// path joins segments. It rejects those that would lead to another resource.
func path(prefix string, segments ...string) (string, error) {
	for _, segment := range segments {
		if segment == "" || segment == "." || segment == ".." {
			return "", &ArgumentError{"an id in the call is empty or invalid"}
		}
		prefix += "/" + url.PathEscape(segment)
	}
	return prefix, nil
}

// invoke makes a call and decodes the response.
func invoke[T any](ctx context.Context, c *core, request call) (*T, error) {
	result, _, err := invokeInfo[T](ctx, c, request)
	return result, err
}

func invokeInfo[T any](ctx context.Context, c *core, request call) (*T, *ResponseInfo, error) {
	body, info, err := c.send(ctx, request)
	if err != nil {
		return nil, nil, err
	}
	result := new(T)
	if err := json.Unmarshal(body, result); err != nil {
		return nil, nil, &ResponseError{RequestID: info.RequestID, err: errors.New("the body is not the expected JSON")}
	}
	return result, info, nil
}

// send makes a call with a token of its scope, and renews a rejected token once.
func (c *core) send(ctx context.Context, request call) ([]byte, *ResponseInfo, error) {
	settings := newCallSettings(request.options)
	header := http.Header{"Accept": {"application/json, application/problem+json"}, "User-Agent": {c.userAgent}}
	if request.isKeyed {
		key := settings.idempotencyKey
		if key == "" {
			key = randomKey()
		}
		if !idempotencyKeyPattern.MatchString(key) {
			return nil, nil, &ArgumentError{"the idempotency key must have 1 to 255 printable ASCII characters"}
		}
		header.Set("Idempotency-Key", key)
	}
	if settings.ifMatch != "" {
		header.Set("If-Match", settings.ifMatch)
	}
	var body []byte
	if request.body != nil {
		var err error
		if body, err = json.Marshal(request.body); err != nil {
			return nil, nil, &ArgumentError{"the request cannot be written as JSON"}
		}
		header.Set("Content-Type", "application/json")
		if request.contentType != "" {
			header.Set("Content-Type", request.contentType)
		}
	}
	target := c.baseURL + request.path
	if len(request.query) > 0 {
		target += "?" + request.query.Encode()
	}
	timeout := c.timeout
	if request.asksOperator && !c.isTimeoutSet {
		timeout = operatorTimeout
	}

	isRenewed := false
	response, err := c.retry(ctx, request.isRetryable, func(ctx context.Context) (*rawResponse, error) {
		for {
			token, err := c.tokens.get(ctx, c, request.scope)
			if err != nil {
				return nil, final{err}
			}
			authorize := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
			response, err := c.attempt(ctx, timeout, request.method, target, header, body, authorize)
			if err == nil && response.status == http.StatusUnauthorized && !isRenewed {
				// Revoked, or signed with a key that is gone.
				isRenewed = true
				c.tokens.discard(request.scope, token)
				continue
			}
			return response, err
		}
	})
	if err != nil {
		return nil, nil, err
	}
	info := &ResponseInfo{
		Status:     response.status,
		RequestID:  response.header.Get("X-Request-Id"),
		Mode:       response.header.Get("X-Project-Mode"),
		ETag:       response.header.Get("ETag"),
		IsReplayed: response.header.Get("Idempotent-Replayed") == "true",
	}
	if settings.info != nil {
		*settings.info = *info
	}
	return response.body, info, nil
}

// final marks an error that is not retried: it has been retried where it occurred.
type final struct{ error }

type rawResponse struct {
	status int
	header http.Header
	body   []byte
}

// retry runs attempts until one succeeds, fails for good, or none is left. The response is successful.
func (c *core) retry(
	ctx context.Context, isRetryable bool, attempt func(context.Context) (*rawResponse, error),
) (*rawResponse, error) {
	for failures := 0; ; failures++ {
		response, err := attempt(ctx)
		var isFinal final
		if errors.As(err, &isFinal) {
			return nil, isFinal.error
		}
		wait, isTransient := backoff(failures), err != nil && ctx.Err() == nil
		if err == nil {
			if response.status < 300 {
				return response, nil
			}
			apiError := newAPIError(response.status, response.header, response.body, c.now())
			err = apiError
			isTransient = isTransientStatus(apiError)
			if apiError.RetryAfter > 0 {
				wait = apiError.RetryAfter
			}
		}
		// The service counts requests before it processes them, so that any call can be repeated after a 429.
		canRepeat := isRetryable || errors.Is(err, ErrRateLimited)
		if !canRepeat || !isTransient || failures >= c.maxRetries || wait > maxRetryAfter {
			return nil, err
		}
		// Without time for another attempt, the caller gets the reason now.
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
			return nil, err
		}
		if !sleep(ctx, wait) {
			return nil, &ConnectionError{Err: ctx.Err()}
		}
	}
}

// isTransientStatus reports whether the same request can succeed later.
func isTransientStatus(e *APIError) bool {
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case http.StatusConflict:
		// The first attempt is still running, for example after its connection broke.
		return e.ErrorCode == ErrorCodeIdempotencyInProgress
	}
	return false
}

// attempt sends one request and reads the whole response.
func (c *core) attempt(
	ctx context.Context, timeout time.Duration, method, target string, header http.Header, body []byte,
	authorize func(*http.Request),
) (*rawResponse, error) {
	attemptCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(attemptCtx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, final{&ArgumentError{"the request cannot be built"}}
	}
	if body == nil {
		request.Body, request.GetBody, request.ContentLength = http.NoBody, nil, 0
	}
	request.Header = header.Clone()
	if authorize != nil {
		authorize(request)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, connectionError(ctx, attemptCtx, timeout, err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxResponseBytes+1))
	if err != nil {
		return nil, connectionError(ctx, attemptCtx, timeout, err)
	}
	if len(content) > maxResponseBytes {
		err := fmt.Errorf("the body is larger than %d bytes", maxResponseBytes)
		return nil, final{&ResponseError{RequestID: response.Header.Get("X-Request-Id"), err: err}}
	}
	return &rawResponse{response.StatusCode, response.Header, content}, nil
}

// connectionError removes the URL from an error of net/http, because paths and queries can contain numbers.
func connectionError(ctx, attemptCtx context.Context, timeout time.Duration, err error) *ConnectionError {
	if ctx.Err() != nil {
		return &ConnectionError{Err: ctx.Err()}
	}
	if attemptCtx.Err() != nil {
		return &ConnectionError{Err: fmt.Errorf("no response within %s", timeout), isTimeout: true}
	}
	var withURL *url.Error
	if errors.As(err, &withURL) {
		return &ConnectionError{Err: withURL.Err, isTimeout: withURL.Timeout()}
	}
	return &ConnectionError{Err: err}
}

// backoff returns a random wait ("full jitter"), so that clients that failed together do not return together.
func backoff(failures int) time.Duration {
	limit := maxBackoff
	if failures < 4 {
		limit = minBackoff << failures
	}
	wait, err := rand.Int(rand.Reader, big.NewInt(int64(limit)))
	if err != nil {
		return limit
	}
	return time.Duration(wait.Int64())
}

// sleep waits, and reports whether it did so to the end.
func sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func randomKey() string {
	var key [16]byte
	if _, err := rand.Read(key[:]); err != nil {
		panic("ringtrue: no random numbers: " + err.Error())
	}
	return hex.EncodeToString(key[:])
}
