package second

// What the tests of pictures look into.
var Pictured = pictured

const (
	PictureOperations = pictureOperations
	PictureUnknown    = pictureUnknown
)
