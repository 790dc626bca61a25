//! Stamps record by record: the contract written down as code. Slow and simple; what everything else is checked against. (Owner: watermark)
