package second

// ResultToDraw exports resultToDraw for the tests of pictures.
var Pictured = resultToDraw

const (
	PictureOperations = pictureOperations
	PictureUnknown    = pictureUnknown
)
