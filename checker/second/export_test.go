package second

// What the tests of pictures look into.
var (
	Drawn    = drawn
	Pictured = pictured
)

type Drawing = drawing

const (
	PictureOperations = pictureOperations
	PictureUnknown    = pictureUnknown
)
