"""What failures cost: whether rows are lost or doubled, and how long it takes until the work goes on."""
