"""Steps: `Iterator[Sample] -> Iterator[Sample]`, frozen records that a recipe lists."""
