package main

import "github.com/openlup/pgrail/examples/shop"

var (
	firstNames = []string{"Ada", "Björn", "Chiara", "Đorđe", "Élodie", "Femke", "Grace", "Håkon", "Ines", "Jörg", "Katarzyna", "Lúcia"}
	lastNames  = []string{"Andersson", "Bianchi", "Çelik", "De Vries", "Fernández", "Hoffmann", "Kowalska", "Müller", "Nowak", "O'Brien"}
	cities     = []string{"Aarhus", "Bergen", "Genève", "Gent", "Gdańsk", "Köln", "Lisboa", "Málaga", "Tallinn", "Zürich"}

	goods = []shop.Item{
		{SKU: "TEA-SENCHA-100", Cents: 1290}, {SKU: "TEA-ASSAM-250", Cents: 990}, {SKU: "TEA-ROOIBOS-100", Cents: 650},
		{SKU: "COFFEE-HUILA-500", Cents: 1450}, {SKU: "COFFEE-YIRGA-250", Cents: 1190}, {SKU: "CUP-STONEWARE", Cents: 1800},
		{SKU: "POT-GLASS-08", Cents: 3490}, {SKU: "FILTER-PAPER-100", Cents: 420}, {SKU: "GRINDER-HAND", Cents: 8900},
	}

	methods  = []string{"card", "card", "card", "transfer", "wallet"}
	carriers = []string{"DHL", "PostNL", "La Poste", "bike courier"}
	reasons  = []string{"changed my mind", "found it cheaper", "ordered twice", "payment failed", "out of stock"}
)
