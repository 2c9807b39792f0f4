package second

// ResultToDraw exports resultToDraw for the tests of pictures.
var ResultToDraw = resultToDraw

const (
	PictureOperations = pictureOperations
	PictureUnknown    = pictureUnknown
)
