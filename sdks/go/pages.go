package ringtrue

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// maxPageSize is the largest page of the API. Iterators use it unless told otherwise, to make few requests.
const maxPageSize = 100

// ListOptions select items and pages of a list.
type ListOptions struct {
	// Search filters the items; see [Field] and [RSQL]. The zero value selects all.
	Search Filter
	// Size is the number of items per page, 1 to 100. The default is 100 for iterators and 10 for a single page.
	Size int
	// Page is the number of the page, from 1. Iterators begin with it. The default is 1.
	Page int
}

// PageOptions are the [ListOptions] of lists without a search.
type PageOptions struct {
	// Size is the number of items per page, 1 to 100. The default is 100 for iterators and 10 for a single page.
	Size int
	// Page is the number of the page, from 1. Iterators begin with it. The default is 1.
	Page int
}

// Page is one page of a list.
type Page[T any] struct {
	// Content has the page's items.
	Content []T `json:"content"`
	// Page has the position of this page and the totals.
	Page PageInfo `json:"page"`
}

// Iterator reads the items of a list page by page, as they are needed:
//
//	checks := client.ReverseSms.List(ctx, ringtrue.ListOptions{})
//	for checks.Next() {
//		check := checks.Item()
//	}
//	if err := checks.Err(); err != nil { … }
//
// Items that are created or change during the iteration can shift the following pages, so that an item appears twice or
// not at all. To read a list that grows, filter by `created_at`.
type Iterator[T any] struct {
	fetch  func(number int) (*Page[T], error)
	number int
	page   *Page[T]
	// at is the index of the current item.
	at  int
	err error
}

// Next moves to the next item, and requests another page if needed. It returns false after the last item and after an
// error; see Err.
func (i *Iterator[T]) Next() bool {
	if i.err != nil {
		return false
	}
	if i.page != nil && i.at+1 < len(i.page.Content) {
		i.at++
		return true
	}
	if i.page != nil {
		if len(i.page.Content) == 0 || i.number >= i.page.Page.TotalPages {
			return false
		}
		i.number++
	}
	page, err := i.fetch(i.number)
	if err != nil {
		i.err = err
		return false
	}
	i.page, i.at = page, 0
	return len(page.Content) > 0
}

// Item returns the current item, after Next has returned true.
func (i *Iterator[T]) Item() *T { return &i.page.Content[i.at] }

// Err returns the error that ended the iteration, if any.
func (i *Iterator[T]) Err() error { return i.err }

// All reads the remaining items.
func (i *Iterator[T]) All() ([]T, error) {
	var items []T
	for i.Next() {
		items = append(items, *i.Item())
	}
	return items, i.err
}

// listing is a list of the API.
type listing struct {
	path  string
	scope Scope
	// err is an invalid path, reported with the first page.
	err   error
	query url.Values
}

func listPage[T any](ctx context.Context, c *core, l listing, options ListOptions) (*Page[T], error) {
	if l.err != nil {
		return nil, l.err
	}
	query := url.Values{}
	for name, values := range l.query {
		query[name] = values
	}
	if search := options.Search.String(); search != "" {
		query.Set("search", search)
	}
	if options.Size != 0 {
		query.Set("size", strconv.Itoa(options.Size))
	}
	if options.Page != 0 {
		query.Set("page", strconv.Itoa(options.Page))
	}
	return invoke[Page[T]](ctx, c, call{
		method: http.MethodGet, path: l.path, query: query, scope: l.scope, isRetryable: true,
	})
}

func listAll[T any](ctx context.Context, c *core, l listing, options ListOptions) *Iterator[T] {
	if options.Size == 0 {
		options.Size = maxPageSize
	}
	if options.Page == 0 {
		options.Page = 1
	}
	fetch := func(number int) (*Page[T], error) {
		options.Page = number
		return listPage[T](ctx, c, l, options)
	}
	return &Iterator[T]{fetch: fetch, number: options.Page}
}

func (o PageOptions) list() ListOptions { return ListOptions{Size: o.Size, Page: o.Page} }
