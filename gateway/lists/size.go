package lists

import (
	"net/netip"
	"reflect"
)

// sizeOf returns the memory that a value and everything it points to use, in bytes, without what the
// allocator adds. Nothing may be in it twice, or in a cycle.
func sizeOf(v any) int { return pointedTo(reflect.ValueOf(v)) }

// pointedTo returns the size of what a value points to, without the value itself.
func pointedTo(v reflect.Value) (size int) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			size = int(v.Type().Elem().Size()) + pointedTo(v.Elem())
		}
	case reflect.Interface:
		if v.IsNil() {
			return 0
		}
		inner := v.Elem()
		if inner.Kind() != reflect.Pointer {
			size = int(inner.Type().Size()) // in an allocation of its own
		}
		size += pointedTo(inner)
	case reflect.Slice:
		elem := v.Type().Elem()
		size = v.Cap() * int(elem.Size())
		if hasPointers(elem) {
			for i := range v.Len() {
				size += pointedTo(v.Index(i))
			}
		}
	case reflect.Array:
		if hasPointers(v.Type().Elem()) {
			for i := range v.Len() {
				size += pointedTo(v.Index(i))
			}
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[netip.Addr]() {
			return 0 // points to its zone, which all addresses share
		}
		for _, field := range v.Fields() {
			size += pointedTo(field)
		}
	case reflect.String:
		size = v.Len()
	default: // has no pointers
	}
	return size
}

// hasPointers reports whether values of a type may point to others.
func hasPointers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Array, reflect.Struct, reflect.String:
		return true
	default:
		return false
	}
}
