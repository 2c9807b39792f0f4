package scenario

import (
	"reflect"
	"time"
)

// MinTimeout is the shortest node timeout that scaling makes. On a busy machine
// a real Redis that is well may wait tens of milliseconds for a processor; a
// shorter bound would take it for dead and measure the machine.
const MinTimeout = 50 * time.Millisecond

// MinDownAfter is likewise the shortest time that scaling gives a master to answer
// its sentinels. To reach one that they have just promoted may take them half of it,
// and a busy machine some of the rest.
const MinDownAfter = time.Second

// Scaled returns a deep copy in which every duration is multiplied by f, so
// that a scenario of minutes runs in seconds of real time. The node timeout is
// not made shorter than MinTimeout, unless it was shorter from the start, and the
// patience of sentinels not shorter than MinDownAfter.
func (s Scenario) Scaled(f float64) Scenario {
	is := s
	scale(reflect.ValueOf(&s).Elem(), f)
	s.Lock.Timeout = max(s.Lock.Timeout, min(is.Lock.Timeout, MinTimeout))
	s.Lock.TTL = s.Lock.TTL.Round(time.Millisecond) // Redis counts in milliseconds
	s.Topology.DownAfter = max(s.Topology.DownAfter, min(is.Topology.DownAfter, MinDownAfter))
	return s
}

// scale multiplies every duration in a value, and leaves it nothing in common with others.
func scale(v reflect.Value, f float64) {
	own := v
	switch v.Kind() {
	case reflect.Int64:
		if d, ok := v.Interface().(time.Duration); ok {
			v.SetInt(int64(float64(d) * f))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			scale(v.Field(i), f)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			own = reflect.New(v.Type().Elem())
			own.Elem().Set(v.Elem())
			scale(own.Elem(), f)
		}
	case reflect.Slice:
		if !v.IsNil() {
			own = reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(own, v)
			for i := range v.Len() {
				scale(own.Index(i), f)
			}
		}
	case reflect.Map: // none has durations
		if !v.IsNil() {
			own = reflect.MakeMap(v.Type())
			for _, key := range v.MapKeys() {
				own.SetMapIndex(key, v.MapIndex(key))
			}
		}
	}
	v.Set(own)
}
