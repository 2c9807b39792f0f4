package second

var ResultToDraw = resultToDraw

const (
	PictureOperations = pictureOperations
	PictureUnknown    = pictureUnknown
)
