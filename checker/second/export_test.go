package second

// What the tests of pictures look into.
var Pictured = resultToDraw

const (
	PictureOperations = pictureOperations
	PictureUnknown    = pictureUnknown
)
