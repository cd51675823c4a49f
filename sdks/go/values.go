package ringtrue

import "encoding/json"

// Ptr returns a pointer to a value, for optional members whose zero value has a meaning of its own.
func Ptr[T any](value T) *T { return &value }

// Nullable is a member of a merge patch that has a value or is null. A nil *Nullable is absent: the setting stays.
type Nullable[T any] struct {
	value  T
	isNull bool
}

// Set returns a member of a merge patch with a value.
func Set[T any](value T) *Nullable[T] { return &Nullable[T]{value: value} }

// Null returns a member of a merge patch that resets the setting to its default.
func Null[T any]() *Nullable[T] { return &Nullable[T]{isNull: true} }

// MarshalJSON implements [json.Marshaler].
func (n Nullable[T]) MarshalJSON() ([]byte, error) {
	if n.isNull {
		return []byte("null"), nil
	}
	return json.Marshal(n.value)
}
