package ringtrue

import (
	"fmt"
	"strings"
	"time"
)

// Filter is a search expression in RSQL. Build it from [Field], or write it as text with [RSQL]. The zero value selects
// all items.
type Filter struct {
	text string
	// needsGroup: the text must be in parentheses within an and.
	needsGroup bool
}

// RSQL is a filter from its text, such as `status==COMPLETED;verified==true`. It is sent as it is: use [Field] for
// values that come from elsewhere.
func RSQL(text string) Filter { return Filter{text, true} }

// String returns the filter's RSQL text.
func (f Filter) String() string { return f.text }

// And selects items that match this filter and all others.
func (f Filter) And(others ...Filter) Filter {
	var parts []string
	var last Filter
	for _, filter := range append([]Filter{f}, others...) {
		switch {
		case filter.text == "":
			continue
		case filter.needsGroup:
			parts = append(parts, "("+filter.text+")")
		default:
			parts = append(parts, filter.text)
		}
		last = filter
	}
	if len(parts) < 2 {
		return last
	}
	return Filter{strings.Join(parts, ";"), false}
}

// Or selects items that match this filter or one of the others. The zero Filter matches all items, and so does an Or
// with it.
func (f Filter) Or(others ...Filter) Filter {
	if len(others) == 0 {
		return f
	}
	var parts []string
	for _, filter := range append([]Filter{f}, others...) {
		if filter.text == "" {
			return Filter{}
		}
		parts = append(parts, filter.text)
	}
	return Filter{strings.Join(parts, ","), true}
}

// Field is the name of a member that a list can be filtered by, such as `status` or `created_at`. The API reference
// names them for each list; `verified` is the name of `match`.
//
// Values can be text, bool, integers and [time.Time]. They are quoted, so that no value becomes syntax:
//
//	ringtrue.Field("status").Eq("COMPLETED").And(ringtrue.Field("verified").Eq(true))
type Field string

// Eq selects items whose field equals the value. A `*` in it is an ordinary character; see Like.
func (f Field) Eq(value any) Filter { return f.compare("==", quote(value)) }

// Ne selects items whose field differs from the value or is absent.
func (f Field) Ne(value any) Filter { return f.compare("!=", quote(value)) }

// Lt selects items whose field is less than the value, or before it.
func (f Field) Lt(value any) Filter { return f.compare("=lt=", quote(value)) }

// Le selects items whose field is at most the value.
func (f Field) Le(value any) Filter { return f.compare("=le=", quote(value)) }

// Gt selects items whose field is greater than the value, or after it.
func (f Field) Gt(value any) Filter { return f.compare("=gt=", quote(value)) }

// Ge selects items whose field is at least the value.
func (f Field) Ge(value any) Filter { return f.compare("=ge=", quote(value)) }

// Like selects items whose text matches a pattern, in which `*` stands for any text and everything else for itself.
func (f Field) Like(pattern string) Filter { return f.compare("==", quotePattern(pattern)) }

// NotLike selects items whose text does not match a pattern, or which have none.
func (f Field) NotLike(pattern string) Filter { return f.compare("!=", quotePattern(pattern)) }

// In selects items whose field equals one of the values, of which there is at least one.
func (f Field) In(values ...any) Filter { return f.compare("=in=", quoteList(values)) }

// Out selects items whose field equals none of the values, of which there is at least one.
func (f Field) Out(values ...any) Filter { return f.compare("=out=", quoteList(values)) }

func (f Field) compare(operator, value string) Filter {
	return Filter{string(f) + operator + value, false}
}

var (
	patternEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	literalEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `*`, `\*`)
)

func quotePattern(pattern string) string { return `"` + patternEscapes.Replace(pattern) + `"` }

func quote(value any) string {
	var text string
	switch value := value.(type) {
	case string:
		text = value
	case time.Time:
		text = value.UTC().Format(time.RFC3339Nano)
	case *time.Time:
		return quote(*value)
	default:
		text = fmt.Sprint(value)
	}
	return `"` + literalEscapes.Replace(text) + `"`
}

func quoteList(values []any) string {
	quoted := make([]string, len(values))
	for index, value := range values {
		quoted[index] = quote(value)
	}
	return "(" + strings.Join(quoted, ",") + ")"
}
