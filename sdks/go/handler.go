package ringtrue

import (
	"context"
	"errors"
	"net/http"
)

// HandlerOption is a setting of [CallbackHandler].
type HandlerOption func(*callbackHandler)

// WithErrorHandler receives the errors of a [CallbackHandler], for your log: a [CallbackError] if a callback was
// rejected, otherwise the error of your function.
func WithErrorHandler(handle func(*http.Request, error)) HandlerOption {
	return func(h *callbackHandler) { h.handleError = handle }
}

type callbackHandler struct {
	callbacks   *Callbacks
	process     func(context.Context, *Event) error
	handleError func(*http.Request, error)
}

// CallbackHandler receives callbacks. It verifies them, calls your function, and responds with 200 after the function
// has returned nil. If it returns an error, the response is 500, and Ringtrue sends the callback again. Return within
// ten seconds: store the event, and process it afterwards.
//
// The function gets a callback more than once; see [Once].
func CallbackHandler(
	client *Client, process func(context.Context, *Event) error, options ...HandlerOption,
) http.Handler {
	handler := &callbackHandler{client.Callbacks, process, func(*http.Request, error) {}}
	for _, option := range options {
		option(handler)
	}
	return handler
}

func (h *callbackHandler) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodPost {
		response.Header().Set("Allow", http.MethodPost)
		response.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	event, err := h.callbacks.Verify(request)
	if err == nil {
		err = h.process(request.Context(), event)
		if err == nil {
			response.WriteHeader(http.StatusOK)
			return
		}
		h.handleError(request, err)
		response.WriteHeader(http.StatusInternalServerError)
		return
	}
	h.handleError(request, err)
	status := http.StatusUnauthorized
	var rejected *CallbackError
	if errors.As(err, &rejected) {
		status = rejected.Status
	}
	response.WriteHeader(status)
}
