"""Datasets as folders that existing code reads: imagefolder, WILDS, DomainBed, BalancingGroups, lists."""
